// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"cmp"
	"net/netip"
	"slices"

	"weir/offload/plan"
)

// entries are the prefixes of a plan, aggregated, and their decisions, in buckets by their first
// octets: what changes below one of them is aggregated anew by itself.
type entries struct {
	all   map[netip.Prefix]plan.Decision
	below map[netip.Prefix]map[netip.Prefix]bool // of each bucket
	short map[netip.Prefix]bool                  // those that are in none
}

// bucketBits is the length of the buckets of a family: some thousands of a full table's prefixes
// are in the largest.
func bucketBits(ipv6 bool) int {
	if ipv6 {
		return 32
	}
	return 16
}

// bucket is the one of a prefix; false if it is shorter than that.
func bucket(p netip.Prefix) (netip.Prefix, bool) {
	bits := bucketBits(p.Addr().Is6())
	if p.Bits() < bits {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked(), true
}

func newEntries() *entries {
	return &entries{map[netip.Prefix]plan.Decision{}, map[netip.Prefix]map[netip.Prefix]bool{}, map[netip.Prefix]bool{}}
}

func (e *entries) take(ops []plan.Op) {
	for _, op := range ops {
		list := e.short
		if top, in := bucket(op.To); in {
			if e.below[top] == nil {
				e.below[top] = map[netip.Prefix]bool{}
			}
			list = e.below[top]
		}
		if op.Remove {
			delete(e.all, op.To)
			delete(list, op.To)
			continue
		}
		e.all[op.To], list[op.To] = op.Decision, true
	}
}

// above is what the prefixes that are shorter than a part say of it.
func (e *entries) above(top netip.Prefix) plan.Decision {
	for bits := top.Bits() - 1; bits >= 0; bits-- {
		if d, there := e.all[netip.PrefixFrom(top.Addr(), bits).Masked()]; there {
			return d
		}
	}
	return plan.CPU
}

// changes lead to what a planner says now, if it says otherwise than before below some prefixes
// alone; in an order in which each address has the decision of before or that of after.
func (e *entries) changes(p *plan.Planner, prefixes []netip.Prefix) []plan.Op {
	have, want := map[netip.Prefix]plan.Decision{}, map[netip.Prefix]plan.Decision{}
	for _, top := range tops(prefixes) {
		e.within(top, have)
		for _, one := range p.Aggregate(top, e.above(top)) {
			want[one.To] = one.Decision
		}
	}
	return plan.Order(have, want)
}

// tops are the parts that prefixes are in: their buckets, or themselves if they are shorter, but
// for those that are in another one.
func tops(prefixes []netip.Prefix) (all []netip.Prefix) {
	for _, to := range prefixes {
		if top, in := bucket(to); in {
			to = top
		}
		all = append(all, to.Masked())
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return cmp.Or(a.Bits()-b.Bits(), a.Addr().Compare(b.Addr())) })
	kept := map[netip.Prefix]bool{}
	return slices.DeleteFunc(slices.Compact(all), func(to netip.Prefix) bool {
		for bits := range to.Bits() {
			if kept[netip.PrefixFrom(to.Addr(), bits).Masked()] {
				return true
			}
		}
		kept[to] = true
		return false
	})
}

// within collects what is in a part.
func (e *entries) within(top netip.Prefix, into map[netip.Prefix]plan.Decision) {
	take := func(all map[netip.Prefix]bool) {
		for to := range all {
			if to.Bits() >= top.Bits() && top.Contains(to.Addr()) {
				into[to] = e.all[to]
			}
		}
	}
	if all, is := e.below[top]; is {
		take(all)
		return
	}
	take(e.short)
	for at, all := range e.below {
		if top.Bits() <= at.Bits() && top.Contains(at.Addr()) {
			take(all)
		}
	}
}
