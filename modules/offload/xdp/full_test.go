// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"bufio"
	"compress/gzip"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// prefixes returns those of WEIR_ROUTES, a gzipped file with one per line, or generated ones.
func prefixes(t *testing.T, r *rand.Rand) (all []netip.Prefix) {
	t.Helper()
	name := os.Getenv("WEIR_ROUTES")
	if name == "" {
		for range 5000 {
			all = append(all, somewhere(r))
		}
		return all
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		to, err := netip.ParsePrefix(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, to)
	}
	return all
}

// With a full table the tree decides as the kernel does, at every boundary address and, for a real
// table, at a million random ones. WEIR_ROUTES names a real table.
func TestAWholeTableIsDecidedAsTheKernelDoes(t *testing.T) {
	r := testutil.Rand(t)
	s, policy := router()
	for _, to := range prefixes(t, r) {
		route := state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{hop(r.IntN(4))})}
		if r.IntN(50) == 0 {
			route = state.Route{Type: 6} // a blackhole among them
		}
		s.Put(state.MainTable, to, route)
	}
	p, err := plan.New(policy, s)
	if err != nil {
		t.Fatal(err)
	}
	tree := newTree()
	for _, zero := range families {
		if err := tree.update(p, zero); err != nil {
			t.Fatal(err)
		}
	}
	ways := func(d plan.Decision) (all []simulate.Way) {
		for _, h := range p.Next(d).Hops {
			all = append(all, simulate.Way{Link: h.Link, Src: h.Src, Dst: h.Dst, Weight: h.Weight, MTU: h.MTU})
		}
		return all
	}
	fib := simulate.New(s)
	expect := fib.Expect(simulate.Scope{Outputs: map[int]bool{2: true}, Split: true, Most: plan.MaxHops, IPv4: true, IPv6: true})
	random := 20_000
	if os.Getenv("WEIR_ROUTES") != "" {
		random = 1_000_000
	}
	addresses := func(yield func(netip.Addr) bool) {
		for a := range simulate.Boundaries(simulate.Prefixes(s)) {
			if !yield(a) {
				return
			}
		}
		for range random {
			b := [16]byte{0x20 | byte(r.IntN(16))}
			for i := 1; i < len(b); i++ {
				b[i] = byte(r.Uint32())
			}
			a := netip.AddrFrom16(b)
			if r.IntN(2) == 0 {
				a = netip.AddrFrom4([4]byte(b[1:5]))
			}
			if !yield(a) {
				return
			}
		}
	}
	found, looked, forwarded := fib.Check(addresses, func(a netip.Addr) []simulate.Way { return ways(tree.lookup(a)) }, expect, false, 5)
	for _, d := range found {
		t.Error(d)
	}
	t.Logf("%d addresses, %d of them forwarded", looked, forwarded)
	if forwarded == 0 {
		t.Error("nothing is forwarded")
	}
}
