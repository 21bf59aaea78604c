// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"cmp"
	"net/netip"
	"slices"

	"weir/modules/offload/plan"
	"weir/modules/offload/state"
)

// entries holds the aggregated prefixes of a plan and their decisions, in buckets by their first
// bytes.
//
// A change is aggregated below its own prefix, given the decisions of shorter prefixes: few rules
// change, but their number may grow beyond the minimum. So a bucket is aggregated as a whole after
// changes of an eighth of its entries.
type entries struct {
	buckets map[netip.Prefix]*bucket
	next    uint32   // largest used handle
	free    []uint32 // handles below it
	spare   []entry  // buffer of merge
}

// bucket has its entries in the order of [state.Compare].
type bucket struct {
	all     []entry
	changed int // prefixes changed since it was aggregated as a whole
}

// entry is a prefix, its decision, and the unique handle of its rules.
type entry struct {
	plan.Entry
	handle uint32
}

// change is a change of an entry.
type change struct {
	plan.Op
	handle uint32
}

// untidy is the share of changed entries of a bucket that triggers a complete aggregation.
const untidy = 8

// bucketOf returns the prefix of a prefix's bucket. Prefixes shorter than a bucket share one of
// their family.
func bucketOf(p netip.Prefix) netip.Prefix {
	bits := 16
	if p.Addr().Is6() {
		bits = 32
	}
	if p.Bits() < bits {
		bits = 0
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked()
}

func newEntries() *entries { return &entries{buckets: map[netip.Prefix]*bucket{}} }

func (e entry) compare(to netip.Prefix) int { return state.Compare(e.To, to) }

// find returns the position of a prefix in its bucket.
func (b *bucket) find(to netip.Prefix) (at int, there bool) {
	return slices.BinarySearchFunc(b.all, to, entry.compare)
}

// get returns the entry of a prefix.
func (e *entries) get(to netip.Prefix) (entry, bool) {
	b := e.buckets[bucketOf(to)]
	if b == nil {
		return entry{}, false
	}
	at, there := b.find(to)
	if !there {
		return entry{}, false
	}
	return b.all[at], true
}

// take applies changes from [entries.changes].
func (e *entries) take(ops []change) {
	by := map[netip.Prefix]*[]change{}
	var name netip.Prefix
	var group *[]change
	for _, op := range ops {
		if now := bucketOf(op.To); group == nil || now != name { // most belong to the same bucket as the one before
			if name, group = now, by[now]; group == nil {
				group = &[]change{}
				by[now] = group
			}
		}
		*group = append(*group, op)
		if op.Remove {
			e.free = append(e.free, op.handle)
		}
	}
	for name, group := range by {
		b := e.buckets[name]
		if b == nil {
			b = &bucket{}
			e.buckets[name] = b
		}
		slices.SortFunc(*group, func(a, b change) int { return state.Compare(a.To, b.To) })
		e.spare = b.merge(*group, e.spare[:0])
	}
}

// merge applies changes in the order of the entries, in one pass, because both can be large.
func (b *bucket) merge(ops []change, spare []entry) []entry {
	rest := b.all
	for _, op := range ops {
		at, there := slices.BinarySearchFunc(rest, op.To, entry.compare)
		spare = append(spare, rest[:at]...)
		if rest = rest[at:]; there {
			rest = rest[1:]
		}
		if !op.Remove {
			spare = append(spare, entry{op.Entry, op.handle})
		}
	}
	spare = append(spare, rest...)
	b.all = append(b.all[:0], spare...)
	return spare
}

// above returns the decision of the shorter prefixes of one.
func (e *entries) above(top netip.Prefix) plan.Decision {
	for bits := top.Bits() - 1; bits >= 0; bits-- {
		if one, there := e.get(netip.PrefixFrom(top.Addr(), bits).Masked()); there {
			return one.Decision
		}
	}
	return plan.CPU
}

// changes returns the changes below some prefixes to the current plan, in an order in which each
// address has its old or new decision.
func (e *entries) changes(p *plan.Planner, prefixes []netip.Prefix) (all []change) {
	var have, want []plan.Entry
	for _, top := range e.tops(prefixes) {
		have = e.within(top, have)
		want = append(want, p.Aggregate(top, e.above(top))...)
	}
	ops := plan.Order(have, want)
	all = make([]change, 0, len(ops))
	for _, op := range ops {
		one := change{Op: op}
		if op.Remove || op.Replace {
			there, _ := e.get(op.To)
			one.handle = there.handle
		} else {
			one.handle = e.handle()
		}
		all = append(all, one)
	}
	return all
}

// handle returns an unused handle.
func (e *entries) handle() (n uint32) {
	if last := len(e.free) - 1; last >= 0 {
		n, e.free = e.free[last], e.free[:last]
		return n
	}
	e.next++
	return e.next
}

// tops returns the prefixes to aggregate again, none within another, in the order of
// [state.Compare].
func (e *entries) tops(prefixes []netip.Prefix) (all []netip.Prefix) {
	for _, to := range prefixes {
		name := bucketOf(to)
		if b := e.buckets[name]; b != nil && name.Bits() > 0 {
			if b.changed++; b.changed*untidy > len(b.all) {
				to, b.changed = name, 0
			}
		}
		all = append(all, to.Masked())
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return cmp.Or(a.Bits()-b.Bits(), a.Addr().Compare(b.Addr())) })
	kept := map[netip.Prefix]bool{}
	all = slices.DeleteFunc(slices.Compact(all), func(to netip.Prefix) bool {
		for bits := range to.Bits() {
			if kept[netip.PrefixFrom(to.Addr(), bits).Masked()] {
				return true
			}
		}
		kept[to] = true
		return false
	})
	slices.SortFunc(all, state.Compare)
	return all
}

// within appends the entries of a prefix and below, in the order of [state.Compare].
func (e *entries) within(top netip.Prefix, into []plan.Entry) []plan.Entry {
	begin := len(into)
	collect := func(b *bucket) {
		at, _ := b.find(top)
		for ; at < len(b.all) && top.Contains(b.all[at].To.Addr()); at++ {
			into = append(into, b.all[at].Entry)
		}
	}
	name := bucketOf(top)
	if b := e.buckets[name]; b != nil {
		collect(b)
	}
	if name.Bits() > 0 {
		return into
	}
	for at, b := range e.buckets {
		if at.Bits() > 0 && top.Contains(at.Addr()) {
			collect(b)
		}
	}
	slices.SortFunc(into[begin:], func(a, b plan.Entry) int { return state.Compare(a.To, b.To) })
	return into
}
