// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
)

// Tally counts the routes of the kernel's tables by treatment.
type Tally struct {
	Routes    int // of the offloaded families
	Offloaded int
	Left      map[Why]int // left to the CPU
}

// WhyHidden is the reason for a route with usable next hops.
const WhyHidden Why = "hidden by an earlier table, an exception, or outside the policy's table"

// WhyBudget is the reason for a route with less traffic than the selected ones.
const WhyBudget Why = "not selected for the budget"

// Tally counts the routes.
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
				closed := p.closed(family == 1)
				switch {
				case closed != WhyNot && next.Why == WhyNot:
					t.Left[closed]++
				case next.Why != WhyNot:
					t.Left[next.Why]++
				case p.at(to) == CPU && p.couldBe(to) != CPU:
					t.Left[WhyBudget]++
				case p.at(to) == CPU && slices.ContainsFunc(filtered(p.state), func(f netip.Prefix) bool { return f.Overlaps(to) && f.Bits() <= to.Bits() }):
					t.Left[WhyFilter]++
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

// at returns the decision of a prefix itself.
func (p *Planner) at(to netip.Prefix) Decision { return p.View(to).Decision() }

// couldBe returns the decision of a prefix without a budget.
func (p *Planner) couldBe(to netip.Prefix) Decision {
	v := p.View(to)
	host := v.n != 0 && v.t.nodes[v.n].host
	return p.forwarded(v.carry, host, func() netip.Addr { return v.t.prefix(v.key, v.depth).Addr() })
}
