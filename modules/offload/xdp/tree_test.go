// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// router has one link with four neighbours.
func router() (*state.State, plan.Policy) {
	s := state.New()
	s.Links[2] = state.Link{Index: 2, Name: "eth0", MAC: state.MAC{2}, MTU: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true}
	for _, ipv6 := range []bool{false, true} {
		s.Rules = append(s.Rules, state.Rule{IPv6: ipv6, Priority: 1, Action: state.Lookup, Table: state.MainTable, Suppress: -1})
	}
	for i := range 4 {
		s.Neighbors[state.Where{Link: 2, At: hop(i).Via}] = state.Neighbor{MAC: state.MAC{2, 1, byte(i)}, Valid: true}
	}
	return s, plan.Policy{From: []string{"eth0"}, IPv4: true, IPv6: true}
}

func hop(i int) state.Hop {
	return state.Hop{Link: 2, Via: netip.AddrFrom4([4]byte{10, 9, 0, byte(i)}), Weight: 1}
}

// somewhere returns a prefix of any length near the others.
func somewhere(r *rand.Rand) netip.Prefix {
	if r.IntN(2) == 0 {
		b := [4]byte{[]byte{9, 10, 223}[r.IntN(3)], byte(r.IntN(2)) * 255, byte(r.IntN(3)), byte(r.IntN(256))}
		to, _ := netip.AddrFrom4(b).Prefix(r.IntN(33))
		return to
	}
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(r.IntN(2)) * 255}
	b[5+r.IntN(11)] = byte(r.IntN(256))
	to, _ := netip.AddrFrom16(b).Prefix(r.IntN(129))
	return to
}

// After each of many changes the tree decides every boundary address as the planner does, and loses
// no block.
func TestTheTreeFollowsThePlanner(t *testing.T) {
	r := testutil.Rand(t)
	for round := range 40 {
		s, policy := router()
		for range r.IntN(60) {
			s.Put(state.MainTable, somewhere(r), state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{hop(r.IntN(4))})})
		}
		p, err := plan.New(policy, s)
		if err != nil {
			t.Fatal(err)
		}
		shared := newTree()
		for _, zero := range families {
			if err := shared.update(p, zero); err != nil {
				t.Fatal(err)
			}
		}
		for change := range 60 {
			to := somewhere(r)
			if r.IntN(3) == 0 {
				for to = range s.Tables[state.MainTable] {
					break
				}
				s.Drop(state.MainTable, to, state.Route{})
			} else {
				s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{hop(r.IntN(4))})})
			}
			p.Route(to)
			if err := shared.update(p, to); err != nil {
				t.Fatal(err)
			}
			if r.IntN(4) == 0 {
				shared.settle()
			}
			for a := range simulate.Boundaries(simulate.Prefixes(s)) {
				if got, want := shared.lookup(a), p.Lookup(a); got != want {
					t.Fatalf("round %d, change %d of %s: %s is decided as %d, want %d", round, change, to, a, got, want)
				}
			}
		}
		if reached := reach(shared); reached+len(shared.free)+len(shared.retired) != shared.used {
			t.Fatalf("%d blocks are in the tree, %d free and %d retired, of %d", reached, len(shared.free), len(shared.retired), shared.used)
		}
	}
}

// reach counts the blocks in the tree.
func reach(t *tree) int {
	var below func(n uint32) int
	below = func(n uint32) int {
		count := 1
		for _, e := range t.block(n) {
			if e&child != 0 {
				count += below(e &^ child)
			}
		}
		return count
	}
	count := 0
	for n := range 2 * root {
		count += below(uint32(n))
	}
	return count
}

// A full tree returns an error, and keeps its entries.
func TestAFullTreeSaysSo(t *testing.T) {
	s, policy := router()
	p, err := plan.New(policy, s)
	if err != nil {
		t.Fatal(err)
	}
	full := newTree()
	full.grow = false
	to := netip.MustParsePrefix("198.51.100.0/24")
	s.Put(state.MainTable, to, state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{hop(1)})})
	p.Route(to)
	if err := full.update(p, to); err != errFull {
		t.Errorf("got %v", err)
	}
	if d := full.lookup(to.Addr()); d != plan.CPU {
		t.Errorf("decided as %d", d)
	}
}
