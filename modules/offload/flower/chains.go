// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"net/netip"

	"weir/kernel/flower"
	"weir/modules/offload/plan"
)

// exceptions writes the rules for packets that the stack always gets.
func (t *table) exceptions() error {
	handle := uint32(0)
	for family := range 2 {
		ipv6 := family == 1
		for _, tagged := range t.tags {
			put := func(priority int, change func(*flower.Rule)) error {
				handle++
				r := flower.Rule{Chain: t.base + uint32(routes4+family), Priority: uint16(2*priority - 1 + index(tagged)), Handle: handle, IPv6: ipv6, Tagged: tagged, Protocol: -1}
				change(&r)
				return t.conn.Add(r)
			}
			if err := put(priorityTTL, func(r *flower.Rule) { r.Expiring = true }); err != nil {
				return err
			}
			for _, source := range t.sources(ipv6) {
				if err := put(prioritySource, func(r *flower.Rule) { r.Src = source }); err != nil {
					return err
				}
			}
			if !ipv6 {
				continue
			}
			// Hop-by-hop, routing, destination options, mobility, HIP, shim6.
			for _, protocol := range []int{0, 43, 60, 135, 139, 140} {
				if err := put(priorityHeader, func(r *flower.Rule) { r.Protocol = protocol }); err != nil {
					return err
				}
			}
		}
	}
	return t.conn.Flush()
}

// sources returns the sources that the stack must judge.
func (t *table) sources(ipv6 bool) (all []netip.Prefix) {
	list := []string{"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"}
	if ipv6 {
		list = []string{"ff00::/8", "fe80::/10", "::/64"}
	}
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	for _, a := range t.planner.Own() {
		if a.Is4() && !ipv6 {
			all = append(all, netip.PrefixFrom(a, 32))
		}
	}
	return all
}

// decided returns the rules of a decision's chains. Without a usable hop they pass packets to the
// stack.
func (t *table) decided(d plan.Decision) (all []flower.Rule) {
	hops := t.planner.Next(d).Hops
	forwarded := len(hops) == 1 && hops[0].MTU >= t.planner.Longest() // no hash, and no packet's size, in flower
	for _, ipv6 := range []bool{false, true} {
		rule := flower.Rule{Chain: t.chainOf(d, ipv6), Handle: 1, IPv6: ipv6, Protocol: -1}
		untagged, tagged := rule, rule
		untagged.Priority, tagged.Priority = 3, 2
		tagged.Tagged = true
		if forwarded {
			back := t.forward(hops[0], &untagged, &tagged)
			all = append(all, back...)
		}
		all = append(all, tagged, untagged)
	}
	return all
}

// forward sends packets to a hop by two rules, and returns the rule before them, if any. The stack
// gets packets that would leave by their ingress link, because it may send a redirect.
func (t *table) forward(h plan.Hop, untagged, tagged *flower.Rule) (back []flower.Rule) {
	out := flower.Forward{Device: h.Port, Src: h.Src, Dst: h.Dst, VLAN: uint16(h.VLAN)}
	same := h.Port == t.port
	if !same || h.VLAN != 0 {
		f := out
		f.Push = h.VLAN != 0
		untagged.Forward = &f
	}
	if !same || h.VLAN == 0 {
		f := out
		f.Modify, f.Pop = h.VLAN != 0, h.VLAN == 0
		tagged.Forward = &f
	}
	if same && h.VLAN != 0 {
		one := *tagged
		one.Priority, one.VLAN = 1, uint16(h.VLAN)
		back = append(back, one)
		f := out
		f.Modify = true
		tagged.Forward = &f
	}
	return back
}
