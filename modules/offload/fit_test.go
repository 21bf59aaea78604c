// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"weir/modules/offload/flower"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
)

// flat returns a plan of a number of disjoint routes.
func flat(t *testing.T, routes, budget int) *plan.Planner {
	t.Helper()
	s := state.New()
	s.Links[1] = state.Link{Index: 1, Name: "p0", MAC: state.MAC{2}, MTU: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true}
	s.Rules = []state.Rule{{Action: state.Lookup, Table: state.MainTable, Suppress: -1}}
	at := netip.MustParseAddr("10.0.0.2")
	s.Neighbors[state.Where{Link: 1, At: at}] = state.Neighbor{MAC: state.MAC{2, 2}, Valid: true}
	for i := range routes {
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(i), 0}), 25)
		s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: 1, Via: at, Weight: 1}})})
	}
	p, err := plan.New(plan.Policy{From: []string{"p0"}, IPv4: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	if budget > 0 {
		p.Choose(budget, nil)
	}
	return p
}

// A table with a smaller capacity than the budget is filled to its capacity, which becomes the
// budget. Without a budget, and for other errors, the install fails.
func TestTheCapacityIsLearnedFromRefusals(t *testing.T) {
	for _, c := range []struct{ routes, budget, capacity, tries, learned int }{
		{200, 100, 1000, 1, 100}, {200, 100, 50, 2, 46}, {200, 100, 2, 2, 1}, {200, 100, 0, 1, 100}, {200, 0, 50, 1, 0},
	} {
		p, tries := flat(t, c.routes, c.budget), 0
		counted := map[netip.Addr]uint64{netip.MustParseAddr("100.64.199.1"): 5}
		notes, err := fit(p, counted, func() error {
			if tries++; tries > 50 {
				t.Fatal("it goes on for ever")
			}
			if rules := len(p.Plain(false)) + len(p.Plain(true)); rules > c.capacity {
				return fmt.Errorf("refused: %w", &flower.Full{Prefixes: c.capacity, Err: errors.New("no room")})
			}
			return nil
		})
		fits := c.learned > 0 && c.learned <= c.capacity
		if (err == nil) != fits || tries != c.tries || p.Chosen().Budget != c.learned || len(notes) != c.tries-1 {
			t.Errorf("%+v: %d tries, learned %d, notes %q, %v", c, tries, p.Chosen().Budget, notes, err)
		}
		if fits && tries > 1 && p.Lookup(netip.MustParseAddr("100.64.199.1")) == plan.CPU {
			t.Errorf("%+v: the route with all the packets is not offloaded", c)
		}
	}
	p := flat(t, 200, 100)
	if notes, err := fit(p, nil, func() error { return errors.New("no driver") }); err == nil || len(notes) > 0 {
		t.Errorf("another error: %q, %v", notes, err)
	}
}
