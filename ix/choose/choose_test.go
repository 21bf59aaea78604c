// SPDX-License-Identifier: Apache-2.0

package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const seedOfTests = 7

// sponsors returns ports of one sponsor each.
func sponsors(t *testing.T, n int) *Ports {
	t.Helper()
	all := make([]Port, n)
	for i := range all {
		all[i] = Port{Sponsor: fmt.Sprintf("sponsor%d", i), Name: "port", Rate: 10e9}
	}
	p, err := NewPorts(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// several returns ports of sponsors with one to three ports in two places.
func several(t *testing.T, random *rand.Rand) *Ports {
	t.Helper()
	var all []Port
	for s := range 2 + random.IntN(8) {
		for i := range 1 + random.IntN(3) {
			all = append(all, Port{Sponsor: fmt.Sprint("s", s), Name: fmt.Sprint("p", i), Rate: uint64(1+random.IntN(100)) * 1e9,
				Place: []string{"BER", "FRA", ""}[random.IntN(3)], Drained: random.IntN(20) == 0})
		}
	}
	p, err := NewPorts(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// random values of the properties below: paths from random ports, with small lengths so that ties
// are common.
func randomPaths(random *rand.Rand, ports int) (paths []Path) {
	for port := range ports {
		for range []int{1, 1, 1, 1, 0, 2}[random.IntN(6)] {
			paths = append(paths, Path{Port: uint16(port), Length: uint16(1 + random.IntN(5)), Second: uint32(random.IntN(5)), LocalPref: 100 + uint32(random.IntN(20)/19),
				Shutdown: random.IntN(20) == 0, Tie: random.Uint64()})
		}
	}
	return paths
}

func randomPrefix(random *rand.Rand) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + random.IntN(200)), byte(random.IntN(256)), byte(random.IntN(256))}), 24)
}

func randomMember(random *rand.Rand, ports int) Member {
	m := Member{Place: []string{"BER", ""}[random.IntN(2)], Barred: make([]bool, ports)}
	for i := range m.Barred {
		m.Barred[i] = random.IntN(6) == 0
	}
	return m
}

func randomRules(random *rand.Rand) Rules {
	return Rules{Tolerance: random.IntN(3), Diverse: random.IntN(3) > 0, Prefer: []Prefer{Spread, Shortest}[random.IntN(2)]}
}

// each calls a test with many random inputs.
func each(t *testing.T, test func(random *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path)) {
	t.Helper()
	for i := range 1000 {
		random := rand.New(rand.NewPCG(seedOfTests, uint64(i)))
		p := several(t, random)
		test(random, p, randomRules(random), randomMember(random, len(p.ports)), randomPrefix(random), randomPaths(random, len(p.ports)))
		if t.Failed() {
			t.Fatalf("seed %d, input %d", seedOfTests, i)
		}
	}
}

func TestSetsAreNested(t *testing.T) {
	each(t, func(_ *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path) {
		c := p.Selection(rules, m)
		all := c.Choose(key, paths, math.MaxInt, nil)
		for n := range all {
			if got := c.Choose(key, paths, n, nil); !slices.Equal(got, all[:n]) {
				t.Errorf("%d of %v: %v", n, all, got)
			}
		}
	})
}

func TestConsentHoldsAndNothingElseIsLost(t *testing.T) {
	each(t, func(_ *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path) {
		got := map[int]bool{}
		for _, i := range p.Selection(rules, m).Choose(key, paths, math.MaxInt, nil) {
			if got[i] {
				t.Errorf("path %d twice", i)
			}
			got[i] = true
		}
		for i, path := range paths {
			if got[i] == m.Barred[path.Port] {
				t.Errorf("path %d: barred %t, chosen %t", i, m.Barred[path.Port], got[i])
			}
		}
	})
}

// Two servers that learned paths and sponsors in another order choose the same paths.
func TestOrderOfArrivalDoesNotMatter(t *testing.T) {
	each(t, func(random *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path) {
		want := chosen(p.Selection(rules, m), key, paths, 4)
		shuffled := slices.Clone(paths)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, chosen(p.Selection(rules, m), key, shuffled, 4)); diff != "" {
			t.Error(diff)
		}
	})
}

func chosen(c *Selection, key netip.Prefix, paths []Path, n int) (all []Path) {
	for _, i := range c.Choose(key, paths, n, nil) {
		all = append(all, paths[i])
	}
	return all
}

// A set of two or more has a shortest path of its best class, so that the best path of BGP's
// decision process is in it.
func TestSetOfTwoHasAShortestPath(t *testing.T) {
	each(t, func(_ *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path) {
		c := p.Selection(rules, m)
		c.candidates(key, paths)
		class, shortest := uint64(math.MaxUint64), uint16(math.MaxUint16)
		for _, v := range c.rest {
			if v.rank>>classShift < class || v.rank>>classShift == class && paths[v.path].Length < shortest {
				class, shortest = v.rank>>classShift, paths[v.path].Length
			}
		}
		two := chosen(c, key, paths, 2)
		if len(two) < 2 {
			return
		}
		if two[0].Length != shortest && (rules.Prefer == Shortest || two[1].Length != shortest) {
			t.Errorf("%+v: lengths %d and %d, the shortest is %d", rules, two[0].Length, two[1].Length, shortest)
		}
		if int(two[0].Length) > int(shortest)+rules.Tolerance {
			t.Errorf("%+v: the first length is %d, the shortest %d", rules, two[0].Length, shortest)
		}
	})
}

// Without length and diversity the loss of a port moves its share alone, and its return restores
// the sets, because the order of the others stays.
func TestLossMovesOneShare(t *testing.T) {
	each(t, func(random *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path) {
		for i := range paths {
			paths[i].Length, paths[i].Second = 3, 0
		}
		c := p.Selection(rules, m)
		before := chosen(c, key, paths, 4)
		// A sponsor with one port, since the loss of one of several ports changes its rank.
		lost := random.IntN(len(p.ports))
		sponsor := p.sponsors[lost]
		rest := slices.DeleteFunc(slices.Clone(paths), func(v Path) bool { return p.sponsors[v.Port] == sponsor })
		after := chosen(c, key, rest, 4)
		kept := slices.DeleteFunc(slices.Clone(before), func(v Path) bool { return p.sponsors[v.Port] == sponsor })
		if !slices.Equal(kept, after[:min(len(kept), len(after))]) {
			t.Errorf("without %s: %+v, before %+v", p.ports[lost].Sponsor, after, before)
		}
	})
}

// Paths out of a set do not decide it: their loss changes nothing if all paths are of one class and
// the set has two or more.
func TestLossOfAPathNotChosenChangesNothing(t *testing.T) {
	steady := 0
	each(t, func(random *rand.Rand, p *Ports, rules Rules, m Member, key netip.Prefix, paths []Path) {
		if random.IntN(2) == 0 {
			for i := range paths {
				paths[i].LocalPref, paths[i].Shutdown = 100, false
			}
		}
		c := p.Selection(rules, m)
		n := 2 + random.IntN(3)
		before := chosen(c, key, paths, n)
		lost := random.IntN(max(1, len(paths)))
		if !c.Steady() || lost >= len(paths) || slices.Contains(before, paths[lost]) {
			return
		}
		steady++
		if after := chosen(c, key, slices.Delete(slices.Clone(paths), lost, lost+1), n); !slices.Equal(before, after) {
			t.Errorf("without %+v: %+v, before %+v", paths[lost], after, before)
		}
	})
	if steady < 100 {
		t.Errorf("%d steady sets", steady)
	}
}

func TestSteps(t *testing.T) {
	const n = 6
	p := sponsors(t, n)
	key := netip.MustParsePrefix("192.0.2.0/24")
	spread := Rules{Tolerance: 1, Diverse: true, Prefer: Spread}
	equal := func(change func(paths []Path)) []Path {
		paths := make([]Path, n)
		for i := range paths {
			paths[i] = Path{Port: uint16(i), Length: 3, Second: uint32(10 + i), LocalPref: 100}
		}
		change(paths)
		return paths
	}
	hashed := p.Selection(spread, Member{}).Choose(key, equal(func([]Path) {}), n, nil)
	first, last := hashed[0], hashed[n-1]
	for _, test := range []struct {
		name   string
		rules  Rules
		change func(paths []Path)
		want   []int // the first positions
	}{
		{"hash", spread, func([]Path) {}, hashed},
		{"LOCAL_PREF", spread, func(v []Path) { v[last].LocalPref, v[last].Length = 200, 9 }, []int{last, first}},
		{"GRACEFUL_SHUTDOWN", spread, func(v []Path) { v[first].Shutdown, v[first].Length = true, 1 }, append(slices.Clone(hashed[1:]), first)},
		{"within the tolerance", spread, func(v []Path) { v[last].Length = 2 }, []int{first, last, hashed[1]}},
		{"prefer shortest", Rules{Tolerance: 1, Prefer: Shortest}, func(v []Path) { v[last].Length = 2 }, []int{last, first}},
		{"beyond the tolerance", spread, func(v []Path) { v[last].Length = 1 }, []int{last, first}},
		{"same second AS", spread, func(v []Path) { v[hashed[1]].Second = v[first].Second }, []int{first, hashed[2], hashed[3], hashed[4], hashed[5], hashed[1]}},
		{"not diverse", Rules{Tolerance: 1, Prefer: Spread}, func(v []Path) { v[hashed[1]].Second = v[first].Second }, hashed},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := p.Selection(test.rules, Member{}).Choose(key, equal(test.change), n, nil)
			if diff := cmp.Diff(test.want, got[:len(test.want)]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlaceAndSecondPort(t *testing.T) {
	p, err := NewPorts([]Port{
		{Sponsor: "a", Name: "1", Rate: 1e15}, {Sponsor: "a", Name: "2", Rate: 1e15}, {Sponsor: "b", Name: "1", Rate: 1e6}, {Sponsor: "c", Name: "1", Rate: 1e6, Place: "BER"},
	})
	if err != nil {
		t.Fatal(err)
	}
	paths := []Path{{Port: 0, Length: 2, Second: 1}, {Port: 1, Length: 2, Second: 2}, {Port: 2, Length: 2, Second: 1}, {Port: 3, Length: 2, Second: 3}}
	for i := range 50 {
		got := chosen(p.Selection(Rules{Diverse: true, Prefer: Spread}, Member{Place: "BER"}), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 16), paths, 4)
		if got[0].Port != 3 || got[1].Port > 1 || got[2].Port != 2 || got[3].Port > 1 {
			t.Errorf("%+v: want the port in BER, then a, b, and the second port of a", got)
		}
	}
}

func TestNewPortsRejects(t *testing.T) {
	if _, err := NewPorts([]Port{{Sponsor: "a", Name: "b"}}); err == nil {
		t.Error("a port without rate is accepted")
	}
	if _, err := NewPorts(make([]Port, MaxPorts+1)); err == nil {
		t.Error("too many ports are accepted")
	}
}
