// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"math/bits"
	"net/netip"
)

// Chosen is the result of a selection of routes.
type Chosen struct {
	Budget  int // maximum number of prefixes of the table
	Rules   int // prefixes of the table, before aggregation
	Routes  int // candidates
	Chosen  int
	Traffic uint64 // counted packets
	Carried uint64 // counted packets to selected routes
	Changed []netip.Prefix
}

// Share returns the share of counted traffic on chosen routes; 0 without traffic.
func (c Chosen) Share() float64 {
	if c.Traffic == 0 {
		return 0
	}
	return float64(c.Carried) / float64(c.Traffic)
}

// Hysteresis: a selected route counts for a quarter more than its packets, and for two more that
// sampling may have missed.
const (
	stayNumerator, stayDenominator = 5, 4
	stayPackets                    = 2
)

// maxBits bounds the compared sum; prices and hysteresis take some more bits.
const maxBits = 40

// Choose offloads a selection of routes only: the table of at most budget prefixes that carries the
// most packets. traffic counts packets by the prefixes of [Planner.Unit]. The CPU gets the other
// routes. A route outside the selection but inside a selected one also takes a prefix of the
// budget, so that no selected prefix hides it.
//
// The former selection stays unless another one is better by more than the hysteresis. With
// constant counters every change therefore carries more packets than the one before, and no
// selection returns. Later routes belong to the CPU until the next selection.
//
// The selection is optimal for the number of prefixes at which the search ends, by a Lagrange
// multiplier as the price of a prefix. The rest of the budget goes to the routes with most packets
// that fit, then to the shortest ones.
func (p *Planner) Choose(budget int, traffic map[netip.Prefix]uint64) Chosen {
	all, units := p.points()
	out := Chosen{Budget: budget}
	for _, packets := range traffic {
		out.Traffic += packets
	}
	shift := max(0, bits.Len64(out.Traffic)-maxBits)
	c := solver{all: all, units: units, weight: make([]int64, len(units))}
	was := make([]bool, len(units))
	for i := range units {
		u := &units[i]
		if !u.able {
			continue
		}
		out.Routes++
		if c.weight[i] = int64(traffic[u.to] >> shift); p.chosen != nil && u.was {
			was[i] = true
			c.weight[i] = c.weight[i]*stayNumerator/stayDenominator + stayPackets
		}
	}
	x := c.best(budget)
	c.fill(x, budget)
	if p.chosen != nil && rules(all, was) <= budget {
		c.fill(was, budget)
		if c.value(was) >= c.value(x) {
			x = was
		}
	}
	out.Rules = rules(all, x)
	out.Changed = p.take(units, x)
	for i, u := range units {
		if x[i] {
			out.Chosen++
			out.Carried += traffic[u.to]
		}
	}
	p.last = out
	return out
}

// take applies a choice and lists the prefixes with changed decisions.
func (p *Planner) take(units []unit, x []bool) (changed []netip.Prefix) {
	began := p.chosen == nil
	p.chosen = map[netip.Prefix]bool{}
	for i, u := range units {
		if x[i] {
			p.chosen[u.to] = true
		}
		if began && !x[i] || !began && x[i] != u.was {
			changed = append(changed, u.to)
		}
		p.tries[index(u.to.Addr().Is6())].nodes[u.node].chosen = x[i]
	}
	return changed
}

// Budgeted reports whether a choice is active.
func (p *Planner) Budgeted() bool { return p.chosen != nil }

// Chosen returns the result of the last choice.
func (p *Planner) Chosen() Chosen { return p.last }

// Choice returns the choice for [Planner.Recall] of a new planner. It must not be changed.
func (p *Planner) Choice() map[netip.Prefix]bool { return p.chosen }

// Recall applies a former choice as the start of the next one.
func (p *Planner) Recall(chosen map[netip.Prefix]bool) {
	if chosen == nil {
		return
	}
	p.chosen = maps.Clone(chosen)
	for to := range chosen {
		if t := p.tries[index(to.Addr().Is6())]; t.at(to, false) != 0 {
			t.nodes[t.at(to, false)].chosen = true
		}
	}
}

// Unit returns the prefix that counts an address' packets: of its route, or its own for a
// neighbour.
func (p *Planner) Unit(a netip.Addr) netip.Prefix {
	t := p.tries[index(a.Is6())]
	k, c, n, length := keyOf(a), start(), uint32(1), 0
	for i := 0; ; i++ {
		if t.nodes[n].begins(c) {
			length = i
		}
		c = c.through(&t.nodes[n])
		if i == t.bits() {
			break
		}
		if n = t.nodes[n].child[k.bit(i)]; n == 0 {
			break
		}
	}
	return netip.PrefixFrom(a, length).Masked()
}
