// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
)

// Aggregate returns the minimum set of prefixes with the planner's decisions for all addresses
// below a prefix, if shorter prefixes have the decision above: optimal routing table construction
// (ORTC; Draves, King, Venkatachary and Zill, 1999). The CPU is a decision like any other, so an
// address without a route never gets one.
func (p *Planner) Aggregate(at netip.Prefix, above Decision) []Entry {
	a := &aggregation{p: p, numbers: map[[2]int32]int32{}, of: map[string]int32{}, out: nil}
	a.t = p.tries[index(at.Addr().Is6())]
	if len(a.t.sets) < len(a.t.nodes) {
		a.t.sets = slices.Grow(a.t.sets[:0], len(a.t.nodes)+len(a.t.nodes)/8)[:len(a.t.nodes)]
	}
	v := p.View(at)
	a.collect(v)
	a.choose(v, above)
	return a.out
}

// aggregation is one run. Sets of decisions are numbered; a set of one decision d is -d-1 and is
// not kept.
type aggregation struct {
	p       *Planner
	t       *trie
	sets    [][]Decision
	of      map[string]int32
	numbers map[[2]int32]int32 // of merged sets
	out     []Entry
}

func single(d Decision) int32 { return int32(-d - 1) }

// collect computes, from the longest prefixes up, the decisions of a prefix that minimize the
// number of prefixes below.
func (a *aggregation) collect(v View) int32 {
	if v.Leaf() {
		set := single(v.Decision())
		if v.n != 0 {
			a.t.sets[v.n] = set
		}
		return set
	}
	set := a.merge(a.collect(v.Child(0)), a.collect(v.Child(1)))
	a.t.sets[v.n] = set
	return set
}

// merge returns the intersection of two sets, or their union if it is empty.
func (a *aggregation) merge(x, y int32) int32 {
	if x == y {
		return x
	}
	if x > y {
		x, y = y, x
	}
	if n, known := a.numbers[[2]int32{x, y}]; known {
		return n
	}
	one, two := a.members(x), a.members(y)
	var both []Decision
	for _, d := range one {
		if _, found := slices.BinarySearch(two, d); found {
			both = append(both, d)
		}
	}
	if len(both) == 0 {
		both = append(slices.Clone(one), two...)
		slices.Sort(both)
	}
	n := a.intern(both)
	a.numbers[[2]int32{x, y}] = n
	return n
}

func (a *aggregation) members(set int32) []Decision {
	if set < 0 {
		return []Decision{Decision(-set - 1)}
	}
	return a.sets[set]
}

func (a *aggregation) intern(all []Decision) int32 {
	if len(all) == 1 {
		return single(all[0])
	}
	name := make([]byte, 0, 4*len(all))
	for _, d := range all {
		name = append(name, byte(d), byte(d>>8), byte(d>>16), byte(d>>24))
	}
	if n, known := a.of[string(name)]; known {
		return n
	}
	n := int32(len(a.sets))
	a.sets, a.of[string(name)] = append(a.sets, all), n
	return n
}

// choose descends again: a prefix needs an entry only if that above does not fit.
func (a *aggregation) choose(v View, above Decision) {
	set := single(v.Decision())
	if v.n != 0 {
		set = a.t.sets[v.n]
	}
	d := above
	if !a.contains(set, above) {
		d = a.members(set)[0] // the CPU, if it is among them
		a.out = append(a.out, Entry{a.t.prefix(v.key, v.depth), d})
	}
	if !v.Leaf() {
		a.choose(v.Child(0), d)
		a.choose(v.Child(1), d)
	}
}

func (a *aggregation) contains(set int32, d Decision) bool {
	if set < 0 {
		return set == single(d)
	}
	_, found := slices.BinarySearch(a.sets[set], d)
	return found
}
