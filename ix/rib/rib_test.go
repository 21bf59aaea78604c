// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// oracle is a routing table of Go maps.
type oracle map[netip.Prefix]map[PortID][]byte

func (o oracle) set(p netip.Prefix, port PortID, attrs []byte) {
	if o[p] == nil {
		o[p] = map[PortID][]byte{}
	}
	o[p][port] = attrs
}

func (o oracle) withdraw(p netip.Prefix, port PortID) bool {
	_, ok := o[p][port]
	if delete(o[p], port); len(o[p]) == 0 {
		delete(o, p)
	}
	return ok
}

func (o oracle) sorted() []netip.Prefix { return slices.SortedFunc(maps.Keys(o), comparePrefixes) }

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// lookup returns the longest prefix of at most bits bits that contains an address.
func (o oracle) lookup(addr netip.Addr, bits int) (best netip.Prefix, ok bool) {
	for p := range o {
		if p.Bits() <= bits && p.Contains(addr) && (!ok || p.Bits() > best.Bits()) {
			best, ok = p, true
		}
	}
	return best, ok
}

// check compares a table with its oracle.
func check(t *testing.T, table *Table, want oracle, ports int) {
	t.Helper()
	paths, sets, perPort := 0, map[string]bool{}, make([]int, ports)
	prefixes := want.sorted()
	i := 0
	for prefix, have := range table.All {
		if i >= len(prefixes) || prefix != prefixes[i] {
			t.Fatalf("row %d is %v", i, prefix)
		}
		i++
		if listed := table.Paths(prefix, nil); !slices.Equal(listed, have) {
			t.Fatalf("%v: Paths returns %v, All %v", prefix, listed, have)
		}
		if len(have) != len(want[prefix]) {
			t.Fatalf("%v: %d paths instead of %d", prefix, len(have), len(want[prefix]))
		}
		for j, path := range have {
			if j > 0 && path.Port <= have[j-1].Port {
				t.Fatalf("%v: ports are out of order: %v", prefix, have)
			}
			attrs, ok := want[prefix][path.Port]
			if !ok || !bytes.Equal(attrs, table.Attrs(path.Attrs)) {
				t.Fatalf("%v port %d: attributes %x instead of %x", prefix, path.Port, table.Attrs(path.Attrs), attrs)
			}
			if path.Attrs > table.MaxAttrID() || table.Path(prefix, path.Port) != path.Attrs {
				t.Fatalf("%v port %d: set %d", prefix, path.Port, path.Attrs)
			}
			paths++
			perPort[path.Port]++
			sets[string(attrs)] = true
		}
	}
	stats := table.Stats()
	if i != len(prefixes) || stats.Prefixes != i || stats.Paths != paths || stats.AttributeSets != len(sets) {
		t.Fatalf("%+v instead of %d prefixes, %d paths, %d sets", stats, len(prefixes), paths, len(sets))
	}
	for port, n := range perPort {
		if have := table.PortPaths(PortID(port)); have != n {
			t.Fatalf("port %d has %d paths instead of %d", port, have, n)
		}
	}
}

// somePrefix returns one of about 9,000 nested prefixes of both families.
func somePrefix(random *rand.Rand) netip.Prefix {
	if random.IntN(3) == 0 {
		addr := netip.AddrFrom16([16]byte{0x20, 1, byte(random.IntN(4)), byte(random.IntN(256)), 15: byte(random.IntN(2))})
		return netip.PrefixFrom(addr, []int{0, 16, 24, 31, 32, 128}[random.IntN(6)]).Masked()
	}
	addr := netip.AddrFrom4([4]byte{10, byte(random.IntN(32)), byte(random.IntN(256)), 0})
	return netip.PrefixFrom(addr, []int{0, 8, 16, 20, 24, 24, 24, 32}[random.IntN(8)]).Masked()
}

func TestTableEqualsAnOracleOfMaps(t *testing.T) {
	const ports = 7
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	table, want := New(ports), oracle{}
	for step := range 120_000 {
		p, port := somePrefix(random), PortID(random.IntN(ports))
		if port == 6 && random.IntN(20) > 0 {
			port = 0 // port 6 has few routes
		}
		// Phases of growth and of shrinking empty the table several times over.
		if shrink := step/20_000%2 == 1; random.IntN(10) < 3 != shrink {
			if have, was := table.Withdraw(p, port), want.withdraw(p, port); have != was {
				t.Fatalf("step %d: Withdraw(%v, %d) returns %v", step, p, port, have)
			}
		} else {
			attrs := fmt.Appendf(nil, "%0*d", 4+random.IntN(200), random.IntN(3000))
			if err := table.Set(p, port, attrs); err != nil {
				t.Fatal(err)
			}
			want.set(p, port, attrs)
		}
		switch {
		case step%9_999 == 0:
			check(t, table, want, ports)
		case step%25_000 == 0:
			n := 0
			for _, p := range want.sorted() {
				if want.withdraw(p, 2) {
					n++
				}
			}
			if have := table.Clear(2); have != n {
				t.Fatalf("Clear returns %d instead of %d", have, n)
			}
		case step%500 == 0:
			addr := somePrefix(random).Addr()
			wantPrefix, wantOK := want.lookup(addr, addr.BitLen())
			if have, ok := table.Lookup(addr); have != wantPrefix || ok != wantOK {
				t.Fatalf("Lookup(%v) returns %v, %v instead of %v", addr, have, ok, wantPrefix)
			}
			wantPrefix, wantOK = want.lookup(p.Addr(), p.Bits()-1)
			if have, ok := table.Covering(p); have != wantPrefix || ok != wantOK {
				t.Fatalf("Covering(%v) returns %v, %v instead of %v", p, have, ok, wantPrefix)
			}
		}
	}
	check(t, table, want, ports)
	for port := range ports {
		table.Clear(PortID(port))
	}
	check(t, table, oracle{}, ports)
}

func TestInvalidPathsAreRejected(t *testing.T) {
	table := New(2)
	good := netip.MustParsePrefix("192.0.2.0/24")
	for _, c := range []struct {
		prefix netip.Prefix
		port   PortID
		attrs  []byte
	}{{netip.Prefix{}, 0, nil}, {good, 2, nil}, {good, 0, make([]byte, 65536)}} {
		if err := table.Set(c.prefix, c.port, c.attrs); err == nil {
			t.Errorf("Set(%v, %d, %d bytes) returns no error", c.prefix, c.port, len(c.attrs))
		}
	}
	if table.Withdraw(good, 0) || table.Withdraw(good, 9) || table.Withdraw(netip.Prefix{}, 0) {
		t.Error("a withdrawal of nothing returns true")
	}
	if table.Attrs(0) != nil || table.Attrs(99) != nil || table.Paths(good, nil) != nil {
		t.Error("an empty table has attributes or paths")
	}
	if err := table.Set(netip.MustParsePrefix("192.0.2.7/24"), 1, make([]byte, 65535)); err != nil {
		t.Error(err)
	}
	if got := table.Paths(good, nil); len(got) != 1 || len(table.Attrs(got[0].Attrs)) != 65535 {
		t.Errorf("paths %v", got)
	}
}

// Bytes of an attribute set stay the same after the set is gone and its block is dropped.
func TestAttributesOfAReleasedSetStay(t *testing.T) {
	table := New(1)
	prefix := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	attrs := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 7}, 100) }
	var kept [][]byte
	for i := range 5000 {
		if err := table.Set(prefix(i), 0, attrs(i)); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, table.Attrs(table.Path(prefix(i), 0)))
	}
	full := table.Stats().Bytes
	for i := range 5000 {
		if i%10 != 0 && !table.Withdraw(prefix(i), 0) {
			t.Fatalf("%d is missing", i)
		}
	}
	if now := table.Stats().Bytes; now > full/2 {
		t.Errorf("%d bytes of %d are left after nine of ten sets are gone", now, full)
	}
	for i, have := range kept {
		if !bytes.Equal(have, attrs(i)) {
			t.Fatalf("attributes %d changed to %x", i, have)
		}
		if i%10 == 0 && !bytes.Equal(table.Attrs(table.Path(prefix(i), 0)), attrs(i)) {
			t.Fatalf("attributes %d moved to %x", i, table.Attrs(table.Path(prefix(i), 0)))
		}
	}
}
