// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"weir/modules/offload/state"
)

// Why is the reason of a decision for the CPU.
type Why string

const (
	WhyNot        Why = "" // offloaded
	WhyLocal      Why = "not unicast: own addresses, broadcast, blackholes"
	WhyNoHop      Why = "route without a next hop"
	WhyOnLink     Why = "connected network: each neighbour has its own entry"
	WhyOutput     Why = "output link outside the policy"
	WhyDown       Why = "link down"
	WhyDead       Why = "dead next hop"
	WhyEncap      Why = "encapsulated next hop"
	WhyTOS        Why = "routes by type of service"
	WhyUnresolved Why = "unresolved next hop"
	WhyMultipath  Why = "multipath route, by the policy"
	WhySeveral    Why = "several routes of one prefix and metric"
	WhyMany       Why = "more than 16 next hops"
	WhySource     Why = "source-specific routes of its prefix"
	WhyFilter     Why = "packet filter, IPsec policy or tc filter, listed below"
	WhyForwarding Why = "forwarding is off"
	WhyFamily     Why = "next hop of the other family"
)

// kind is a decision before its neighbours are looked up.
type kind struct {
	group state.Group
	mtu   int
	why   Why // reason for the CPU, independent of neighbours
	link  int // of WhyOnLink
	ipv6  bool
}

// Next is the current treatment of packets of a decision.
type Next struct {
	Hops []Hop
	Why  Why // if Hops is empty
}

// judge returns the kind of a table's entry.
func judge(s *state.State, to netip.Prefix, e state.Entry) kind {
	r := e.Best
	hops := s.Hops(r.Group)
	k := kind{group: r.Group, mtu: r.MTU, ipv6: to.Addr().Is6()}
	switch {
	case r.Type != state.Unicast:
		k = kind{why: WhyLocal}
	case byTOS(e):
		k = kind{why: WhyTOS}
	case bySource(e):
		k = kind{why: WhySource}
	case len(hops) == 0:
		k = kind{why: WhyNoHop}
	case len(hops) == 1 && !hops[0].Via.IsValid():
		k = kind{why: WhyOnLink, link: hops[0].Link}
	case r.Several:
		k = kind{why: WhySeveral}
	}
	return k
}

// byTOS reports whether the type of service matters.
func byTOS(e state.Entry) bool {
	if e.Best.TOS != 0 {
		return true
	}
	for _, r := range e.More {
		if r.TOS != 0 {
			return true
		}
	}
	return false
}

// bySource reports whether the source matters: the kernel looks at shorter prefixes for others.
func bySource(e state.Entry) bool {
	return e.Best.From.IsValid() || slices.ContainsFunc(e.More, func(r state.Route) bool { return r.From.IsValid() })
}

// resolve computes the treatment of packets of a kind.
func (p *Planner) resolve(k kind) Next {
	if k.why != WhyNot {
		return Next{Why: k.why}
	}
	hops := p.state.Hops(k.group)
	switch {
	case len(hops) > 1 && p.policy.Multipath == Leave:
		return Next{Why: WhyMultipath}
	case len(hops) > MaxHops:
		return Next{Why: WhyMany}
	}
	var next Next
	for _, h := range hops {
		hop, why := p.hop(h, k)
		if why != WhyNot {
			return Next{Why: why} // without one hop, flows would move
		}
		next.Hops = append(next.Hops, hop)
	}
	return next
}

func (p *Planner) hop(h state.Hop, k kind) (Hop, Why) {
	l := p.state.Links[h.Link]
	switch {
	case h.Encap:
		return Hop{}, WhyEncap
	case h.Dead:
		return Hop{}, WhyDead
	case !p.outputs[h.Link]:
		return Hop{}, WhyOutput
	case p.filteredOutput(h.Link, k.ipv6):
		return Hop{}, WhyFilter
	case !h.Via.IsValid():
		return Hop{}, WhyOnLink
	}
	device, vlan, err := port(p.state, l)
	switch {
	case err != nil:
		return Hop{}, WhyOutput
	case !l.Up || !l.Lower || !device.Up || !device.Lower:
		return Hop{}, WhyDown
	}
	n := p.state.Neighbors[state.Where{Link: h.Link, At: h.Via}]
	if !n.Valid {
		return Hop{}, WhyUnresolved
	}
	return Hop{Link: h.Link, Port: device.Index, VLAN: vlan, Src: l.MAC, Dst: n.MAC, MTU: mtu(l, k), Weight: max(h.Weight, 1)}, WhyNot
}

// mtu returns the kernel's limit for forwarded packets: that of the route, else of the link; for
// IPv6 that of the link unless the route's is locked.
func mtu(l state.Link, k kind) int {
	size := l.MTU
	if k.ipv6 && l.MTU6 > 0 {
		size = min(size, l.MTU6)
	}
	if k.mtu > 0 {
		size = min(size, k.mtu)
	}
	return size
}
