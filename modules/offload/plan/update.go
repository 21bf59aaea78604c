// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Route applies the state's current routes of a prefix in all tables. The decisions below the
// prefix may change.
func (p *Planner) Route(to netip.Prefix) {
	family := index(to.Addr().Is6())
	own, layer := none, uint8(0)
	for i, table := range p.layers[family] {
		if e, there := p.state.Tables[table][to]; there {
			own, layer = p.decision(judge(p.state, to, e)), uint8(i+1)
			break
		}
	}
	if slices.Contains(exceptions(), to) || slices.Contains(p.policy.Except, to) {
		own, layer = CPU, 0
	}
	mark := p.policy.Table == 0 && to.Bits() == 0
	if p.policy.Table != 0 {
		_, mark = p.state.Tables[p.policy.Table][to]
	}
	p.tries[family].change(to, func(n *node) { n.own, n.layer, n.mark, n.chosen = own, layer, mark, p.chosen[to] })
}

// Neighbor applies the state's entry of a neighbour. It returns the decisions with another
// treatment, and the prefix with another decision; the zero value for none.
func (p *Planner) Neighbor(at state.Where) (changed []Decision, to netip.Prefix) {
	valid := p.state.Neighbors[at].Valid
	known := slices.ContainsFunc(p.hosts[at.At], func(h hostHop) bool { return h.link == at.Link })
	if valid != known {
		if valid {
			p.host(at)
		} else {
			p.forget(at)
		}
		to = netip.PrefixFrom(at.At, at.At.BitLen())
	}
	for _, d := range p.users[at] {
		if next := p.resolve(p.kinds[d]); !same(next, p.ready[d]) {
			p.ready[d] = next
			changed = append(changed, d)
		}
	}
	return changed, to
}

// Covers reports whether a table affects decisions, and so whether its changes matter.
func (p *Planner) Covers(table uint32, ipv6 bool) bool {
	return slices.Contains(p.layers[index(ipv6)], table) || table == p.policy.Table && table != 0
}

// Stale returns the used neighbours that the kernel has not confirmed for some time.
func (p *Planner) Stale() (all []state.Where) {
	for at := range p.users {
		if n := p.state.Neighbors[at]; n.Valid && n.Stale {
			all = append(all, at)
		}
	}
	return all
}
