// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
)

// world returns a router with ports 10 and 11, VLANs 20 to 23 on the first one and 24 on the second
// one, and a bridge 30 outside the policy.
func world() *state.State {
	s := state.New()
	s.Host.Forward6 = true
	link := func(index int, name, kind string, parent, vlan int) {
		l := state.Link{Index: index, Name: name, Kind: kind, MAC: state.MAC{2, 0, 0, 0, 0, byte(index)}, MTU: 1500, MTU6: 1500, Up: true, Lower: true,
			Ethernet: true, Forward4: true, Parent: parent, VLAN: vlan}
		if vlan > 0 {
			l.Protocol = 0x8100
		}
		s.Links[index] = l
	}
	link(10, "eth0", "", 0, 0)
	link(11, "eth1", "veth", 0, 0)
	for i := range 4 {
		link(20+i, fmt.Sprintf("eth0.%d", 20+i), "vlan", 10, 20+i)
	}
	link(24, "eth1.24", "vlan", 11, 24)
	link(30, "br0", "bridge", 0, 0)
	for _, ipv6 := range []bool{false, true} {
		for i, table := range []uint32{state.LocalTable, state.MainTable, state.DefaultTable} {
			s.Rules = append(s.Rules, state.Rule{IPv6: ipv6, Priority: uint32([]int{0, 32766, 32767}[i]), Action: state.Lookup, Table: table, Suppress: -1})
		}
	}
	s.SortRules()
	for i, index := range []int{20, 21, 22, 23, 24, 30} {
		s.Put(state.MainTable, netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i)), state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: index, Weight: 1}})})
		s.Put(state.MainTable, netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/64", i)), state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: index, Weight: 1}})})
		s.Put(state.LocalTable, netip.MustParsePrefix(fmt.Sprintf("10.0.%d.1/32", i)), state.Route{Type: state.Local, Group: s.GroupOf([]state.Hop{{Link: index, Weight: 1}})})
		s.Put(state.LocalTable, netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::1/128", i)), state.Route{Type: state.Local, Group: s.GroupOf([]state.Hop{{Link: index, Weight: 1}})})
		for host := 2; host < 6; host++ {
			for _, at := range []string{fmt.Sprintf("10.0.%d.%d", i, host), fmt.Sprintf("2001:db8:%d::%d", i, host)} {
				s.Neighbors[state.Where{Link: index, At: netip.MustParseAddr(at)}] = state.Neighbor{
					MAC: state.MAC{2, 1, 0, 0, byte(index), byte(host)}, Valid: host != 5, Stale: host == 4}
			}
		}
	}
	s.Put(state.LocalTable, netip.MustParsePrefix("127.0.0.0/8"), state.Route{Type: state.Local})
	s.Put(state.LocalTable, netip.MustParsePrefix("ff00::/8"), state.Route{Type: state.Multicast})
	return s
}

// via returns a hop through link 20+i to its host.
func via(i, host int, ipv6 bool) state.Hop {
	at := fmt.Sprintf("10.0.%d.%d", i, host)
	if ipv6 {
		at = fmt.Sprintf("2001:db8:%d::%d", i, host)
	}
	return state.Hop{Link: []int{20, 21, 22, 23, 24, 30}[i], Via: netip.MustParseAddr(at), Weight: 1}
}

// scatter adds routes at conflicting places: nested, adjacent, at the ends of each other, and over
// the router's own networks.
func scatter(r *rand.Rand, s *state.State, table uint32, n int) {
	bases := []string{"10.0.0.0", "10.0.3.255", "192.0.2.128", "0.0.0.0", "255.255.255.255", "127.0.0.0", "172.16.0.0", "239.0.0.0",
		"2001:db8::", "2001:db8:3::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "::", "fe80::1", "ff02::1", "2a00:1450::"}
	for range n {
		a := netip.MustParseAddr(bases[r.IntN(len(bases))])
		b := a.AsSlice()
		for range r.IntN(4) {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		a, _ = netip.AddrFromSlice(b)
		to, _ := a.Prefix(r.IntN(a.BitLen() + 1))
		s.Put(table, to, route(r, s, a.Is6()))
	}
}

func route(r *rand.Rand, s *state.State, ipv6 bool) state.Route {
	out := state.Route{Type: state.Unicast, Metric: uint32(r.IntN(3))}
	switch r.IntN(12) {
	case 0:
		out.Type = 6 // blackhole
		return out
	case 1:
		out.Type = 7 // unreachable
		return out
	case 2:
		out.Group = s.GroupOf([]state.Hop{{Link: 20 + r.IntN(4), Weight: 1}})
		return out
	case 3:
		out.MTU = 1280 + r.IntN(100)
	case 4:
		out.TOS = 8
	case 5:
		out.Several = true
	}
	var hops []state.Hop
	for range 1 + r.IntN(2)*r.IntN(3) {
		h := via(r.IntN(6), 2+r.IntN(4), ipv6)
		h.Weight, h.Dead, h.Encap = 1+r.IntN(3), r.IntN(30) == 0, r.IntN(30) == 0
		hops = append(hops, h)
	}
	out.Group = s.GroupOf(hops)
	return out
}

// policyOf returns a random policy, and its form for the simulator.
func policyOf(r *rand.Rand) (plan.Policy, simulate.Scope) {
	p := plan.Policy{From: []string{"eth0.20", "eth0.21", "eth1.24", "eth0"}, To: []string{"eth0.20", "eth0.21", "eth0.22", "eth1.24"}, IPv4: true, IPv6: true}
	scope := simulate.Scope{Outputs: map[int]bool{20: true, 21: true, 22: true, 24: true}, Split: true, Most: plan.MaxHops, IPv4: true, IPv6: true}
	if r.IntN(4) == 0 {
		p.Multipath, scope.Split = plan.Leave, false
	}
	if r.IntN(3) == 0 {
		p.Except = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/13"), netip.MustParsePrefix("2001:db8:3::/49")}
		scope.Except = slices.Clone(p.Except)
	}
	if r.IntN(3) == 0 {
		p.Table, scope.Table = 1000, 1000
	}
	if r.IntN(5) == 0 {
		p.IPv6, scope.IPv6 = false, false
	}
	return p, scope
}

// fast converts decisions to the simulator's ways.
func fast(p *plan.Planner, lookup func(netip.Addr) plan.Decision) simulate.Fast {
	return func(a netip.Addr) (all []simulate.Way) {
		for _, h := range p.Next(lookup(a)).Hops {
			all = append(all, simulate.Way{Link: h.Link, Src: h.Src, Dst: h.Dst, Weight: h.Weight, MTU: h.MTU})
		}
		return all
	}
}

// table finds the longest matching prefix in a list.
func table(entries map[netip.Prefix]plan.Decision) func(netip.Addr) plan.Decision {
	return func(a netip.Addr) plan.Decision {
		for bits := a.BitLen(); bits >= 0; bits-- {
			to, _ := a.Prefix(bits)
			if d, there := entries[to]; there {
				return d
			}
		}
		return plan.CPU
	}
}

func set(lists ...[]plan.Entry) map[netip.Prefix]plan.Decision {
	all := map[netip.Prefix]plan.Decision{}
	for _, list := range lists {
		for _, e := range list {
			if _, twice := all[e.To]; twice {
				panic("twice " + e.To.String())
			}
			all[e.To] = e.Decision
		}
	}
	return all
}
