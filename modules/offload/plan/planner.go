// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Planner holds the decisions of one router. Not for concurrent use.
type Planner struct {
	policy  Policy
	state   *state.State
	inputs  []Input
	outputs map[int]bool
	layers  [2][]uint32 // of each family
	tries   [2]*trie
	kinds   []kind
	number  map[kind]Decision
	ready   []Next                   // of each decision; looked up again by Refresh
	hosts   map[netip.Addr][]hostHop // neighbours on links
	users   map[state.Where][]Decision
	chosen  map[netip.Prefix]bool // by a budget; nil chooses all
	last    Chosen
}

// hostHop is a neighbour as a destination.
type hostHop struct {
	link     int
	decision Decision
}

// New returns a planner. The error is the reason why nothing can be offloaded.
func New(p Policy, s *state.State) (*Planner, error) {
	p.Except = slices.Concat(p.Except, filtered(s))
	n := &Planner{policy: p, state: s, kinds: []kind{{why: WhyLocal}}, number: map[kind]Decision{}, hosts: map[netip.Addr][]hostHop{},
		users: map[state.Where][]Decision{}}
	var err error
	if n.inputs, err = inputs(s, p); err != nil {
		return nil, err
	}
	if n.outputs, err = outputs(s, p); err != nil {
		return nil, err
	}
	for family, enabled := range []bool{p.IPv4, p.IPv6} {
		n.tries[family] = newTrie(family == 1)
		if !enabled {
			continue
		}
		if n.layers[family], err = layers(s, family == 1); err != nil {
			return nil, err
		}
	}
	n.fill()
	n.Refresh()
	return n, nil
}

func index(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

// fill writes all prefixes into the tries.
func (p *Planner) fill() {
	for family, tables := range p.layers {
		for i, table := range tables {
			for to, e := range p.state.Tables[table] {
				if index(to.Addr().Is6()) == family {
					p.claim(to, uint8(i+1), p.decision(judge(p.state, to, e)))
				}
			}
		}
	}
	for _, to := range append(exceptions(), p.policy.Except...) {
		p.claim(to.Masked(), 0, CPU)
	}
	if p.policy.Table == 0 {
		p.tries[0].nodes[1].mark, p.tries[1].nodes[1].mark = true, true
	}
	for to := range p.state.Tables[p.policy.Table] {
		p.tries[index(to.Addr().Is6())].change(to, func(n *node) { n.mark = true })
	}
	for at, n := range p.state.Neighbors {
		if n.Valid {
			p.host(at)
		}
	}
}

// claim gives a prefix its decision, unless a layer above has one for it.
func (p *Planner) claim(to netip.Prefix, layer uint8, d Decision) {
	t := p.tries[index(to.Addr().Is6())]
	at := t.at(to, true) // may grow the nodes
	n := &t.nodes[at]
	if n.own == none || n.layer >= layer {
		n.own, n.layer = d, layer
	}
}

// decision returns the number of a kind.
func (p *Planner) decision(k kind) Decision {
	if k.why != WhyNot && k.why != WhyOnLink {
		return CPU
	}
	if d, known := p.number[k]; known {
		return d
	}
	d := Decision(len(p.kinds))
	p.kinds, p.number[k] = append(p.kinds, k), d
	for _, h := range p.state.Hops(k.group) {
		at := state.Where{Link: h.Link, At: h.Via}
		p.users[at] = append(p.users[at], d)
	}
	if p.ready != nil {
		p.ready = append(p.ready, p.resolve(k))
	}
	return d
}

// host adds a neighbour as a destination.
func (p *Planner) host(at state.Where) {
	if !p.outputs[at.Link] || at.At.Is6() && !p.policy.IPv6 || at.At.Is4() && !p.policy.IPv4 {
		return
	}
	for _, h := range p.hosts[at.At] {
		if h.link == at.Link {
			return
		}
	}
	group := p.state.GroupOf([]state.Hop{{Link: at.Link, Via: at.At, Weight: 1}})
	d := p.decision(kind{group: group, ipv6: at.At.Is6()})
	p.hosts[at.At] = append(p.hosts[at.At], hostHop{at.Link, d})
	p.tries[index(at.At.Is6())].change(netip.PrefixFrom(at.At, at.At.BitLen()), func(n *node) { n.host, n.chosen = true, p.chosen[netip.PrefixFrom(at.At, at.At.BitLen())] })
}

// forget removes a neighbour as a destination.
func (p *Planner) forget(at state.Where) {
	left := slices.DeleteFunc(p.hosts[at.At], func(h hostHop) bool { return h.link == at.Link })
	if len(left) > 0 {
		p.hosts[at.At] = left
		return
	}
	delete(p.hosts, at.At)
	p.tries[index(at.At.Is6())].change(netip.PrefixFrom(at.At, at.At.BitLen()), func(n *node) { n.host = false })
}

// State returns the planner's state, which must not be changed.
func (p *Planner) State() *state.State { return p.state }

// Inputs returns the links with offloaded packets.
func (p *Planner) Inputs() []Input { return p.inputs }

// Decisions is one more than the largest decision.
func (p *Planner) Decisions() int { return len(p.kinds) }

// Next returns the treatment of packets of a decision.
func (p *Planner) Next(d Decision) Next { return p.ready[d] }

// Refresh resolves all next hops again, and lists the changed decisions.
func (p *Planner) Refresh() (changed []Decision) {
	before := p.ready
	p.ready = make([]Next, len(p.kinds))
	for i, k := range p.kinds {
		p.ready[i] = p.resolve(k)
		if i < len(before) && !same(before[i], p.ready[i]) {
			changed = append(changed, Decision(i))
		}
	}
	return changed
}

func same(a, b Next) bool { return a.Why == b.Why && slices.Equal(a.Hops, b.Hops) }

// effective returns the decision at a node reached with a carry, without the addresses below.
func (p *Planner) effective(c Carry, host bool, address func() netip.Addr) Decision {
	if p.chosen != nil && !c.chosen {
		return CPU
	}
	return p.forwarded(c, host, address)
}

// forwarded returns the decision without a budget.
func (p *Planner) forwarded(c Carry, host bool, address func() netip.Addr) Decision {
	if !c.mark {
		return CPU
	}
	k := p.kinds[c.own]
	switch {
	case k.why == WhyNot:
		return c.own
	case k.why == WhyOnLink && host:
		for _, h := range p.hosts[address()] {
			if h.link == k.link {
				return h.decision
			}
		}
	}
	return CPU
}

// Lookup returns the decision for an address.
func (p *Planner) Lookup(a netip.Addr) Decision {
	t := p.tries[index(a.Is6())]
	k, c, n := keyOf(a), start(), uint32(1)
	for i := 0; ; i++ {
		c = c.through(&t.nodes[n])
		if i == t.bits() {
			return p.effective(c, t.nodes[n].host, func() netip.Addr { return a })
		}
		next := t.nodes[n].child[k.bit(i)]
		if next == 0 {
			return p.effective(c, false, nil)
		}
		n = next
	}
}

// Own returns the router's own addresses. Packets from them are invalid.
func (p *Planner) Own() (all []netip.Addr) {
	for a := range p.state.Addresses {
		all = append(all, a.At.Addr())
	}
	return all
}

// Ports returns the receiving and sending devices.
func (p *Planner) Ports() (all []int) {
	for _, in := range p.inputs {
		all = append(all, in.Port)
	}
	for index := range p.outputs {
		if device, _, err := port(p.state, p.state.Links[index]); err == nil {
			all = append(all, device.Index)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Longest returns the maximum packet size of all offloaded links.
func (p *Planner) Longest() (size int) {
	for _, in := range p.inputs {
		size = max(size, p.state.Links[in.Link].MTU)
	}
	return size
}
