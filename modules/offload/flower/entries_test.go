// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// nested returns routes at the edges of buckets: longer than them, of their length, and shorter.
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

// After single changes the entries decide every boundary address as the planner does, and only
// different entries change.
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
				s.Drop(state.MainTable, to, state.Route{})
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
				have, there := e.get(op.To)
				if there && !op.Remove && have.Decision == op.Decision || there != (op.Remove || op.Replace) || there && have.handle != op.handle {
					t.Fatalf("%+v, and there is %+v (%t)", op, have, there)
				}
			}
			e.take(ops)
			for a := range simulate.Boundaries(simulate.Prefixes(s)) {
				if got, want := decided(e, a), p.Lookup(a); got != want {
					t.Fatalf("%s is decided as %d by the entries and as %d by the planner", a, got, want)
				}
			}
			e.whole(t)
		}
	}
}

// whole reports whether every entry is in its bucket, under a unique handle.
func (e *entries) whole(t *testing.T) {
	t.Helper()
	handles := map[uint32]bool{}
	for name, b := range e.buckets {
		if !slices.IsSortedFunc(b.all, func(a, b entry) int { return state.Compare(a.To, b.To) }) {
			t.Fatalf("the entries of %s are out of order: %v", name, b.all)
		}
		for _, one := range b.all {
			if bucketOf(one.To) != name || handles[one.handle] || one.handle == 0 || one.handle > e.next {
				t.Fatalf("%+v is in the bucket of %s; the last handle is %d", one, name, e.next)
			}
			handles[one.handle] = true
		}
	}
	if len(handles)+len(e.free) != int(e.next) {
		t.Fatalf("%d handles are used and %d free of %d", len(handles), len(e.free), e.next)
	}
}

// A route without longer ones below it changes one entry, and the number of entries stays near the
// minimum.
func TestAChangeOfARouteIsOneOfTheEntries(t *testing.T) {
	r := testutil.Rand(t)
	s := state.New()
	s.Links[1] = state.Link{Index: 1, Name: "p0", MAC: state.MAC{2}, MTU: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true}
	s.Rules = []state.Rule{{Action: state.Lookup, Table: state.MainTable, Suppress: -1}}
	put := func() netip.Prefix {
		via := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(4))})
		s.Neighbors[state.Where{Link: 1, At: via}] = state.Neighbor{MAC: state.MAC{2, via.AsSlice()[3]}, Valid: true}
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(r.Uint32())}), 24)
		s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: 1, Via: via, Weight: 1}})})
		return to
	}
	for range 1000 {
		put()
	}
	p, err := plan.New(plan.Policy{From: []string{"p0"}, IPv4: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	e := newEntries()
	e.take(e.changes(p, families))
	count := func() (n int) {
		for _, b := range e.buckets {
			n += len(b.all)
		}
		return n
	}
	for i := range 500 {
		to := put()
		p.Route(to)
		ops := e.changes(p, []netip.Prefix{to})
		tidied := e.buckets[bucketOf(to)].changed == 0
		if len(ops) > 1 && !tidied {
			t.Fatalf("the %dth change of one route is %d: %+v", i, len(ops), ops)
		}
		e.take(ops)
		fewest := len(p.Aggregate(families[0], plan.CPU))
		if have := count(); have > fewest+fewest/untidy+1 {
			t.Fatalf("after %d changes %d entries, where %d would do", i, have, fewest)
		}
	}
}

func decided(e *entries, a netip.Addr) plan.Decision {
	for bits := a.BitLen(); bits >= 0; bits-- {
		to, _ := a.Prefix(bits)
		if one, there := e.get(to); there {
			return one.Decision
		}
	}
	return plan.CPU
}
