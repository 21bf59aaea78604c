// SPDX-License-Identifier: Apache-2.0

package plan

import "net/netip"

// Tally is what becomes of the routes of the kernel's tables.
type Tally struct {
	Routes    int // of the families that are offloaded
	Offloaded int
	Left      map[Why]int // to the CPU
}

// WhyHidden says that a route is the CPU's though its next hops would do.
const WhyHidden Why = "behind a table above it, an exception, or not in the policy's table"

// WhyBudget says that a route is the CPU's because others carry more packets.
const WhyBudget Why = "not among the routes that the budget has room for"

// Tally counts.
func (p *Planner) Tally() Tally {
	t := Tally{Left: map[Why]int{}}
	for family, tables := range p.layers {
		for _, table := range tables {
			for to, e := range p.state.Tables[table] {
				if index(to.Addr().Is6()) != family {
					continue
				}
				t.Routes++
				next := p.resolve(judge(p.state, to, e))
				switch {
				case next.Why != WhyNot:
					t.Left[next.Why]++
				case p.at(to) == CPU && p.couldBe(to) != CPU:
					t.Left[WhyBudget]++
				case p.at(to) == CPU:
					t.Left[WhyHidden]++
				default:
					t.Offloaded++
				}
			}
		}
	}
	return t
}

// at is the decision of a prefix itself.
func (p *Planner) at(to netip.Prefix) Decision { return p.View(to).Decision() }

// couldBe is that without a budget.
func (p *Planner) couldBe(to netip.Prefix) Decision {
	v := p.View(to)
	host := v.n != 0 && v.t.nodes[v.n].host
	return p.forwarded(v.carry, host, func() netip.Addr { return v.t.prefix(v.key, v.depth).Addr() })
}
