// SPDX-License-Identifier: Apache-2.0

package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func TestNegLog2(t *testing.T) {
	for _, h := range []uint64{0, 1, 2, 3, 1 << 20, 1<<63 - 1, 1 << 63, 3 << 62, math.MaxUint64 - 1, math.MaxUint64} {
		want := 64 - math.Log2(float64(h)+1)
		if got := float64(negLog2(h)) / (1 << 32); math.Abs(got-want) > 2e-7 {
			t.Errorf("%#x: %v, want %v", h, got, want)
		}
	}
	last := negLog2(0)
	for h := uint64(1); h < math.MaxUint64/2; h += h/997 + 1 {
		if now := negLog2(h); now > last {
			t.Fatalf("%#x: %d after %d", h, now, last)
		} else {
			last = now
		}
	}
}

// A port is first for a share of prefixes that is its share of the rates: within five standard
// deviations of 100,000 prefixes.
func TestShareFollowsTheRate(t *testing.T) {
	rates := []uint64{1e9, 10e9, 10e9, 40e9, 100e9}
	var ports []Port
	var paths []Path
	sum := 0.0
	for i, r := range rates {
		ports = append(ports, Port{Sponsor: string(rune('a' + i)), Name: "port", Rate: r})
		paths = append(paths, Path{Port: uint16(i), Length: 3})
		sum += float64(r)
	}
	p, err := NewPorts(ports)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Selection(Rules{Prefer: Spread}, Member{})
	const n = 100_000
	firsts := make([]float64, len(rates))
	random := rand.New(rand.NewPCG(seedOfTests, 1))
	var into []int
	for range n {
		key := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(random.IntN(224)), byte(random.IntN(256)), byte(random.IntN(256))}), 24)
		into = c.Choose(key, paths, 1, into[:0])
		firsts[into[0]]++
	}
	for i, r := range rates {
		share := float64(r) / sum
		if deviation := math.Sqrt(n * share * (1 - share)); math.Abs(firsts[i]-n*share) > 5*deviation {
			t.Errorf("port of %d bit/s: %v prefixes, want %v", r, firsts[i], n*share)
		}
	}
}

// The hash is part of the interface: a release that changes it moves every member's paths, and two
// servers of different releases choose differently.
func TestHashIsFixed(t *testing.T) {
	for _, test := range []struct {
		prefix string
		want   uint64
	}{{"192.0.2.0/24", 1975255943765}, {"192.0.2.0/25", 1569248580357}, {"2001:db8::/32", 856409655143}} {
		if got := cost(mix(digest(netip.MustParsePrefix(test.prefix))^seed("orange", "ber1")), 10e9); got != test.want {
			t.Errorf("%s: %d, want %d", test.prefix, got, test.want)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	random := rand.New(rand.NewPCG(seedOfTests, 1))
	var ports []Port
	var paths []Path
	for i := range 18 {
		ports = append(ports, Port{Sponsor: string(rune('a' + i)), Name: "port", Rate: 10e9})
		paths = append(paths, Path{Port: uint16(i), Length: uint16(3 + random.IntN(4)), Second: uint32(random.IntN(10)), LocalPref: 100})
	}
	p, err := NewPorts(ports)
	if err != nil {
		b.Fatal(err)
	}
	c := p.Selection(Rules{Tolerance: 1, Diverse: true, Prefer: Spread}, Member{})
	key := netip.MustParsePrefix("192.0.2.0/24")
	var into []int
	b.ReportAllocs()
	for b.Loop() {
		into = c.Choose(key, paths, 4, into[:0])
	}
}

// Tags are distinct, and depend on the names alone.
func TestTags(t *testing.T) {
	var ports []Port
	for i := range 3000 {
		ports = append(ports, Port{Sponsor: fmt.Sprintf("s%d", i/3), Name: fmt.Sprintf("p%d", i%3), Rate: 1e9})
	}
	p, err := NewPorts(ports)
	if err != nil {
		t.Fatal(err)
	}
	byName, used := map[string]uint16{}, map[uint16]bool{}
	for i, port := range ports {
		tag := p.Tag(uint16(i))
		if used[tag] {
			t.Errorf("tag %d is given twice", tag)
		}
		byName[port.Sponsor+"/"+port.Name], used[tag] = tag, true
	}
	slices.Reverse(ports)
	if p, err = NewPorts(ports); err != nil {
		t.Fatal(err)
	}
	for i, port := range ports {
		if want := byName[port.Sponsor+"/"+port.Name]; p.Tag(uint16(i)) != want {
			t.Errorf("%s/%s has tag %d in another order, %d before", port.Sponsor, port.Name, p.Tag(uint16(i)), want)
		}
	}
}
