// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/kernel/testutil"
)

func TestAddresses(t *testing.T) {
	a4, b4, a6, b6 := addresses(0)
	got := fmt.Sprint(a4, b4, a6, b6)
	if want := "10.0.0.1/30 10.0.0.2/30 fd00::1/64 fd00::2/64"; got != want {
		t.Errorf("first link: %s, want %s", got, want)
	}
	a4, b4, a6, b6 = addresses(300)
	got = fmt.Sprint(a4, b4, a6, b6)
	if want := "10.0.4.177/30 10.0.4.178/30 fd00:0:0:12c::1/64 fd00:0:0:12c::2/64"; got != want {
		t.Errorf("link 300: %s, want %s", got, want)
	}
	seen := map[netip.Prefix]bool{}
	for i := range maxLinks {
		a4, b4, a6, b6 := addresses(i)
		if a4.Masked() != b4.Masked() || a6.Masked() != b6.Masked() || seen[a4.Masked()] || seen[a6.Masked()] || a4 == b4 || a6 == b6 {
			t.Fatalf("link %d: %s %s %s %s", i, a4, b4, a6, b6)
		}
		seen[a4.Masked()], seen[a6.Masked()] = true, true
	}
}

// triangle has two ways from a to b: over left, and over right and far.
const triangle = `version: 1
title: t
hosts: [a, b]
routers: [r, s, u]
links:
  - {name: first, ends: [a, r]}
  - {name: left, ends: [r, s]}
  - {name: right, ends: [r, u]}
  - {name: far, ends: [u, s]}
  - {name: last, ends: [s, b]}
ROUTES
phases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]
`

// walk follows routes as a kernel does: the longest prefix, connected subnets included. It returns
// the nodes passed.
func walk(c *Cell, from string, to netip.Addr) []string {
	path := []string{from}
	for here := from; len(path) < 50; path = append(path, here) {
		if owns(c, here, to) {
			return path
		}
		next, bits := "", -1
		for _, l := range c.Links {
			for _, end := range []struct {
				node, other string
				at          netip.Prefix
			}{{l.A, l.B, l.AddressA4}, {l.B, l.A, l.AddressB4}, {l.A, l.B, l.AddressA6}, {l.B, l.A, l.AddressB6}} {
				if end.node == here && end.at.Masked().Contains(to) && end.at.Bits() > bits {
					next, bits = end.other, end.at.Bits()
				}
			}
		}
		for _, r := range c.Routes {
			if r.From == here && r.To.Contains(to) && r.To.Bits() > bits {
				next, bits = neighbor(c, here, r), r.To.Bits()
			}
		}
		if next == "" {
			return append(path, "nowhere")
		}
		here = next
	}
	return append(path, "in circles")
}

func owns(c *Cell, node string, a netip.Addr) bool {
	for _, l := range c.Links {
		if l.A == node && (l.AddressA4.Addr() == a || l.AddressA6.Addr() == a) || l.B == node && (l.AddressB4.Addr() == a || l.AddressB6.Addr() == a) {
			return true
		}
	}
	return false
}

// neighbor is the node that has the hop's address on the route's link; the route must be usable
// from here.
func neighbor(c *Cell, here string, r Route) string {
	for _, l := range c.Links {
		if l.Name != r.Via {
			continue
		}
		if l.A == here && (l.AddressB4.Addr() == r.Hop || l.AddressB6.Addr() == r.Hop) {
			return l.B
		}
		if l.B == here && (l.AddressA4.Addr() == r.Hop || l.AddressA6.Addr() == r.Hop) {
			return l.A
		}
	}
	return ""
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct{ name, routes, there, back string }{
		{"shortest", "", "a r s b", "b s r a"},
		{"one way", "routes: [{from: a, to: b, via: [first, right, far, last]}]", "a r u s b", "b s r a"},
		{"both ways", "routes: [{from: a, to: b, via: [first, right, far, last]}, {from: b, to: a, via: [last, far, right, first]}]", "a r u s b", "b s u r a"},
		{"part of the way", "routes: [{from: r, to: b, via: [right, far, last]}]", "a r u s b", "b s r a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := cells(t, strings.Replace(triangle, "ROUTES", c.routes, 1))[0]
			for _, family := range []int{4, 6} {
				a, _ := cell.Address("a", family)
				b, _ := cell.Address("b", family)
				if got := strings.Join(walk(&cell, "a", b), " "); got != c.there {
					t.Errorf("IPv%d there: %s, want %s", family, got, c.there)
				}
				if got := strings.Join(walk(&cell, "b", a), " "); got != c.back {
					t.Errorf("IPv%d back: %s, want %s", family, got, c.back)
				}
			}
		})
	}
	_, err := Parse("f.yaml", []byte(strings.Replace(triangle, "ROUTES", "routes: [{from: a, to: b, via: [first, right, far, last]}, {from: r, to: b, via: [left, last]}]", 1)))
	want := `f.yaml:11:83: routes[1].via[0]: another route has "r" send to "b" over "right"`
	if err == nil || err.Error() != want {
		t.Errorf("routes that contradict each other: %v, want %s", err, want)
	}
}

// TestParallelLinks: a second address of a neighbour is reached over the link that the route names,
// not the connected one.
func TestParallelLinks(t *testing.T) {
	cell := cells(t, `version: 1
title: t
hosts: [a, b]
links: [{name: one, ends: [a, b]}, {name: two, ends: [a, b]}]
routes: [{from: b, to: a, via: [two]}]
phases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]
`)[0]
	p := netip.MustParsePrefix
	a := netip.MustParseAddr
	want := []Route{
		{"b", p("10.0.0.1/32"), "two", a("10.0.0.5")}, {"b", p("fd00::1/128"), "two", a("fd00:0:0:1::1")},
		{"a", p("10.0.0.6/32"), "one", a("10.0.0.2")}, {"a", p("fd00:0:0:1::2/128"), "one", a("fd00::2")},
	}
	if d := cmp.Diff(want, cell.Routes, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
		t.Errorf("routes (-want +got):\n%s", d)
	}
}

// TestEveryPairIsJoined walks all routes of the largest shipped scenario and of random trees with
// extra links, and compares the number of hops with those of an independent search over all nodes
// at once (Floyd and Warshall).
func TestEveryPairIsJoined(t *testing.T) {
	rng := testutil.Rand(t)
	many, err := Load("many")
	if err != nil {
		t.Fatal(err)
	}
	all, err := many.Expand()
	if err != nil {
		t.Fatal(err)
	}
	if len(all[0].Nodes) != 40 || len(all[0].Links) != 40 {
		t.Fatalf("many has %d nodes and %d links", len(all[0].Nodes), len(all[0].Links))
	}
	h1, _ := all[0].Address("h1", 4)
	h16, _ := all[0].Address("h16", 4)
	if there, back := walk(&all[0], "h1", h16), walk(&all[0], "h16", h1); len(there) != 8 || len(back) != 8 || there[2] != "r10" || back[2] != "r5" {
		t.Errorf("h1 to h16: %v, and back %v", there, back)
	}
	for range 20 {
		cell := cells(t, randomTopology(rng))[0]
		compareWithOracle(t, &cell)
	}
}

func randomTopology(rng *rand.Rand) string {
	var routers, links []string
	n := 2 + rng.IntN(6)
	for i := range n {
		routers = append(routers, fmt.Sprintf("r%d", i))
		if i > 0 {
			links = append(links, fmt.Sprintf("{name: l%d, ends: [r%d, r%d]}", i, i, rng.IntN(i)))
		}
	}
	for i := range rng.IntN(4) {
		a := rng.IntN(n - 1)
		links = append(links, fmt.Sprintf("{name: x%d, ends: [r%d, r%d]}", i, a, a+1+rng.IntN(n-a-1)))
	}
	links = append(links, fmt.Sprintf("{ends: [a, r%d]}", rng.IntN(n)), fmt.Sprintf("{ends: [b, r%d]}", rng.IntN(n)), fmt.Sprintf("{name: second, ends: [b, r%d]}", rng.IntN(n)))
	return fmt.Sprintf("version: 1\ntitle: t\nhosts: [a, b]\nrouters: [%s]\nlinks: [%s]\nphases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]\n",
		strings.Join(routers, ", "), strings.Join(links, ",\n  "))
}

func compareWithOracle(t *testing.T, c *Cell) {
	t.Helper()
	const far = 1000
	n, index := len(c.Nodes), map[string]int{}
	d := make([][]int, n)
	for i, node := range c.Nodes {
		index[node.Name] = i
		d[i] = make([]int, n)
		for j := range d[i] {
			d[i][j] = far
		}
		d[i][i] = 0
	}
	for _, l := range c.Links {
		d[index[l.A]][index[l.B]], d[index[l.B]][index[l.A]] = 1, 1
	}
	for k := range n {
		for i := range n {
			for j := range n {
				if c.Nodes[k].Router {
					d[i][j] = min(d[i][j], d[i][k]+d[k][j])
				}
			}
		}
	}
	for _, l := range c.Links {
		for _, end := range []struct {
			node string
			at   netip.Addr
		}{{l.A, l.AddressA4.Addr()}, {l.B, l.AddressB6.Addr()}} {
			for _, from := range c.Nodes {
				path := walk(c, from.Name, end.at)
				if want := d[index[from.Name]][index[end.node]]; len(path)-1 != want && !connected(c, from.Name, end.at) || path[len(path)-1] != end.node {
					t.Errorf("from %s to %s of %s: %v, want %d hops", from.Name, end.at, end.node, path, want)
				}
			}
		}
	}
}

func connected(c *Cell, node string, a netip.Addr) bool {
	for _, l := range c.Links {
		if l.A == node && (l.AddressA4.Masked().Contains(a) || l.AddressA6.Masked().Contains(a)) || l.B == node && (l.AddressB4.Masked().Contains(a) || l.AddressB6.Masked().Contains(a)) {
			return true
		}
	}
	return false
}
