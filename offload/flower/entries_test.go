// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"weir/internal/testutil"
	"weir/offload/plan"
	"weir/offload/simulate"
	"weir/offload/state"
)

// nested makes routes at the edges of buckets: longer ones, their own length, and shorter ones.
func nested(r *rand.Rand) netip.Prefix {
	if r.IntN(3) == 0 {
		a := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(r.IntN(2)) * 255, byte(r.IntN(4))})
		to, _ := a.Prefix([]int{0, 16, 31, 32, 33, 40, 48, 48}[r.IntN(8)])
		return to
	}
	a := netip.AddrFrom4([4]byte{100, byte(64 + r.IntN(2)), byte(r.IntN(2)) * 255, byte(r.IntN(4))})
	to, _ := a.Prefix([]int{0, 8, 15, 16, 17, 20, 24, 24, 30, 32}[r.IntN(10)])
	return to
}

// After changes one by one the entries decide every boundary address as the planner does, and no
// more of them are changed than differ.
func TestPartsAreChangedAlone(t *testing.T) {
	r := testutil.Rand(t)
	for range 40 {
		s := state.New()
		s.Host.Forward6 = true
		s.Links[1] = state.Link{Index: 1, Name: "p0", MAC: state.MAC{2}, MTU: 1500, MTU6: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true}
		for _, ipv6 := range []bool{false, true} {
			s.Rules = append(s.Rules, state.Rule{IPv6: ipv6, Action: state.Lookup, Table: state.MainTable, Suppress: -1})
		}
		group := func(ipv6 bool) state.Group {
			at := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(4))})
			if ipv6 {
				at = netip.AddrFrom16([16]byte{0xfd, 15: byte(r.IntN(4))})
			}
			if s.Neighbors[state.Where{Link: 1, At: at}] = (state.Neighbor{MAC: state.MAC{2, at.AsSlice()[3]}, Valid: true}); r.IntN(9) == 0 {
				return s.GroupOf(nil)
			}
			return s.GroupOf([]state.Hop{{Link: 1, Via: at, Weight: 1}})
		}
		change := func() netip.Prefix {
			to := nested(r)
			if _, there := s.Tables[state.MainTable][to]; there && r.IntN(2) == 0 {
				s.Drop(state.MainTable, to, 0, 0)
			} else {
				s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: group(to.Addr().Is6())})
			}
			return to
		}
		for range 30 {
			change()
		}
		p, err := plan.New(plan.Policy{From: []string{"p0"}, IPv4: true, IPv6: true}, s)
		if err != nil {
			t.Fatal(err)
		}
		e := newEntries()
		e.take(e.changes(p, families))
		for range 40 {
			var some []netip.Prefix
			for range 1 + r.IntN(3) {
				to := change()
				p.Route(to)
				some = append(some, to)
			}
			ops := e.changes(p, some)
			for _, op := range ops {
				if d, there := e.all[op.To]; there && !op.Remove && d == op.Decision || there != (op.Remove || op.Replace) {
					t.Fatalf("%+v, and there is %d (%t)", op, d, there)
				}
			}
			e.take(ops)
			for a := range simulate.Boundaries(simulate.Prefixes(s)) {
				if got, want := decided(e, a), p.Lookup(a); got != want {
					t.Fatalf("%s is decided as %d by the entries and as %d by the planner", a, got, want)
				}
			}
			inBuckets := len(e.short)
			for _, all := range e.below {
				inBuckets += len(all)
			}
			if inBuckets != len(e.all) {
				t.Fatalf("%d entries, %d in buckets or shorter", len(e.all), inBuckets)
			}
		}
	}
}

func decided(e *entries, a netip.Addr) plan.Decision {
	for bits := a.BitLen(); bits >= 0; bits-- {
		to, _ := a.Prefix(bits)
		if d, there := e.all[to]; there {
			return d
		}
	}
	return plan.CPU
}
