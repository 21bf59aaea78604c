// SPDX-License-Identifier: Apache-2.0

package plan

import "net/netip"

// Entry is a prefix and its decision.
type Entry struct {
	To       netip.Prefix
	Decision Decision
}

// View walks the decisions of one family below a prefix, for backends with their own structure.
type View struct {
	p     *Planner
	t     *trie
	n     uint32
	carry Carry // through n
	key   key
	depth int
}

// View starts at a prefix.
func (p *Planner) View(at netip.Prefix) View {
	t := p.tries[index(at.Addr().Is6())]
	v := View{p: p, t: t, n: 1, carry: start().through(&t.nodes[1])}
	k := keyOf(at.Addr())
	for i := range at.Bits() {
		v = v.Child(k.bit(i))
	}
	return v
}

// Child returns one half of the prefix.
func (v View) Child(bit int) View {
	if v.n != 0 {
		v.n = v.t.nodes[v.n].child[bit]
	}
	if v.n != 0 {
		v.carry = v.carry.through(&v.t.nodes[v.n])
	}
	v.key.set(v.depth, bit)
	v.depth++
	return v
}

// Depth returns the length of the prefix.
func (v View) Depth() int { return v.depth }

// Leaf reports whether the planner has no more specific prefix, so that one decision holds for all.
func (v View) Leaf() bool { return v.n == 0 || v.t.nodes[v.n].child == [2]uint32{} }

// Decision returns the decision of the prefix, without longer ones.
func (v View) Decision() Decision {
	host := v.n != 0 && v.t.nodes[v.n].host
	return v.p.effective(v.carry, host, func() netip.Addr { return v.t.prefix(v.key, v.depth).Addr() })
}

// Plain returns the decisions of one family for longest-prefix matching, without prefixes that
// repeat the decision of the next shorter one. Other addresses belong to the CPU.
func (p *Planner) Plain(ipv6 bool) (all []Entry) {
	t := p.tries[index(ipv6)]
	var walk func(v View, above Decision)
	walk = func(v View, above Decision) {
		d := v.Decision()
		if d != above {
			all = append(all, Entry{t.prefix(v.key, v.depth), d})
		}
		for bit := range 2 {
			if t.nodes[v.n].child[bit] != 0 {
				walk(v.Child(bit), d)
			}
		}
	}
	zero := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if ipv6 {
		zero = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	walk(p.View(zero), CPU)
	return all
}
