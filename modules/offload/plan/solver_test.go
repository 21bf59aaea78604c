// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/offload/state"
)

// small is a router with a few nested routes over three next hops and one neighbour more.
func small(r *rand.Rand, routes int) *state.State {
	s := state.New()
	for i := range 2 {
		s.Links[i+1] = state.Link{Index: i + 1, Name: fmt.Sprintf("p%d", i), MAC: state.MAC{2, byte(i)}, MTU: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true}
	}
	s.Rules = []state.Rule{{Action: state.Lookup, Table: state.MainTable, Suppress: -1}}
	s.Put(state.MainTable, netip.MustParsePrefix("10.0.0.0/24"), state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: 2, Weight: 1}})})
	for i := range 3 {
		at := netip.AddrFrom4([4]byte{10, 0, 0, byte(2 + i)})
		s.Neighbors[state.Where{Link: 2, At: at}] = state.Neighbor{MAC: state.MAC{2, 1, byte(i)}, Valid: true}
	}
	for range routes {
		a := netip.AddrFrom4([4]byte{100, 64, 0, byte(r.IntN(256))})
		to, _ := a.Prefix([]int{0, 20, 24, 25, 26, 27, 28, 32}[r.IntN(8)])
		hop := netip.AddrFrom4([4]byte{10, 0, 0, byte(2 + r.IntN(4))}) // one is not resolved
		s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: 2, Via: hop, Weight: 1}})})
	}
	return s
}

// whole returns a plan without a budget, and its possible rules: prefixes of routes, neighbours and
// exceptions.
func whole(t *testing.T, s *state.State) (*Planner, map[netip.Prefix]Decision) {
	t.Helper()
	p, err := New(Policy{From: []string{"p0", "p1"}, IPv4: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	all := map[netip.Prefix]Decision{}
	for to := range s.Tables[state.MainTable] {
		all[to] = p.at(to)
	}
	for at := range s.Neighbors {
		to := netip.PrefixFrom(at.At, 32)
		all[to] = p.at(to)
	}
	for _, to := range exceptions() {
		if to.Addr().Is4() {
			all[to] = CPU
		}
	}
	return p, all
}

// needs returns the number of rules of a selection, if the CPU gets the other prefixes: one for
// each prefix with another decision than the next shorter one.
func needs(all map[netip.Prefix]Decision, in func(netip.Prefix) bool) (n int) {
	decided := func(to netip.Prefix) Decision {
		if !in(to) {
			return CPU
		}
		return all[to]
	}
	for to := range all {
		above := CPU
		for bits := to.Bits() - 1; bits >= 0; bits-- {
			shorter := netip.PrefixFrom(to.Addr(), bits).Masked()
			if _, there := all[shorter]; there {
				above = decided(shorter)
				break
			}
		}
		if decided(to) != above {
			n++
		}
	}
	return n
}

// An exhaustive search finds no selection of as many rules that carries more packets. Filling the
// rest of the budget keeps within it.
func TestTheChoiceIsTheBestForItsRules(t *testing.T) {
	r := testutil.Rand(t)
	exact, tried := 0, 0
	for round := range 60 {
		s := small(r, 1+r.IntN(9))
		p, all := whole(t, s)
		var able []netip.Prefix
		traffic := map[netip.Prefix]uint64{}
		for to, d := range all {
			if d != CPU {
				able = append(able, to)
				traffic[to] = uint64(r.IntN(5)) * uint64(r.IntN(40))
			}
		}
		most := needs(all, func(netip.Prefix) bool { return true })
		best := make([]uint64, most+len(all)+2)
		for set := range 1 << len(able) {
			chosen, sum := map[netip.Prefix]bool{}, uint64(0)
			for i, to := range able {
				if set>>i&1 == 1 {
					chosen[to], sum = true, sum+traffic[to]
				}
			}
			n := needs(all, func(to netip.Prefix) bool { return chosen[to] })
			best[n] = max(best[n], sum)
		}
		for i := 1; i < len(best); i++ {
			best[i] = max(best[i], best[i-1])
		}
		points, units := p.points()
		c := solver{all: points, units: units, weight: make([]int64, len(units))}
		for i, u := range units {
			if u.able {
				c.weight[i] = int64(traffic[u.to])
			}
		}
		for budget := 1; budget <= most+1; budget++ {
			x := c.best(budget)
			used := rules(points, x)
			if got := uint64(c.value(x)); used > budget || got != best[used] {
				t.Fatalf("round %d, budget %d: the search ends with %d packets by %d rules; the best of all choices carries %d", round, budget, got, used, best[used])
			}
			fresh, _ := whole(t, s)
			out := fresh.Choose(budget, traffic)
			got := needs(all, func(to netip.Prefix) bool { return fresh.chosen[to] })
			if out.Rules != got || got != len(fresh.Plain(false))+len(fresh.Plain(true)) || got > budget {
				t.Fatalf("round %d, budget %d: %d rules are told, %d are needed, and the plan has %d", round, budget, out.Rules, got, len(fresh.Plain(false)))
			}
			if out.Carried > best[budget] || out.Carried < best[used] {
				t.Fatalf("round %d, budget %d: %d packets are carried; the search alone has %d, the best of all choices %d", round, budget, out.Carried, best[used], best[budget])
			}
			tried++
			if out.Carried == best[budget] {
				exact++
			}
		}
	}
	t.Logf("%d of %d choices are the best that the budget has room for", exact, tried)
}
