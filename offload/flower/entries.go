// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"net/netip"

	"weir/offload/plan"
)

// entries are the prefixes of a plan, aggregated, and their decisions, in buckets by their first
// octets: what changes below one of them is aggregated anew by itself.
type entries struct {
	all   map[netip.Prefix]plan.Decision
	below map[netip.Prefix]map[netip.Prefix]bool // of each bucket; shorter prefixes are in none
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
	return &entries{map[netip.Prefix]plan.Decision{}, map[netip.Prefix]map[netip.Prefix]bool{}}
}

func (e *entries) take(ops []plan.Op) {
	for _, op := range ops {
		top, in := bucket(op.To)
		if op.Remove {
			delete(e.all, op.To)
			delete(e.below[top], op.To)
			continue
		}
		e.all[op.To] = op.Decision
		if !in {
			continue
		}
		if e.below[top] == nil {
			e.below[top] = map[netip.Prefix]bool{}
		}
		e.below[top][op.To] = true
	}
}

// above is what the prefixes that are shorter than a bucket say of it.
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
	tops := map[netip.Prefix]bool{}
	for _, to := range prefixes {
		top, in := bucket(to)
		if !in {
			return plan.Order(e.all, wanted(p))
		}
		tops[top] = true
	}
	have, want := map[netip.Prefix]plan.Decision{}, map[netip.Prefix]plan.Decision{}
	for top := range tops {
		for to := range e.below[top] {
			have[to] = e.all[to]
		}
		for _, one := range p.Aggregate(top, e.above(top)) {
			want[one.To] = one.Decision
		}
	}
	return plan.Order(have, want)
}
