// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"

	"weir/kernel/rtnl"
	"weir/lab/scenario"
)

// addRoutes adds the node's routes of the cell. A destination of a flow with ECN gets the ECN
// feature, with its own route if it is a direct neighbour.
func (b *builder) addRoutes(name string) error {
	ecn := b.ecnDestinations(name)
	for _, r := range b.joined(name, b.routesOf(name), ecn) {
		route := rtnl.Route{To: r.To, Via: r.Hop} // the hop determines the device, since every link has its own subnets
		for address := range ecn {
			if r.To.Contains(address) {
				route.ECN = true
				delete(ecn, address)
			}
		}
		if err := b.conns[name].AddRoute(route); err != nil {
			return fmt.Errorf("route to %s over %s: %w", r.To, r.Via, err)
		}
	}
	for address, device := range ecn {
		if device == "" {
			continue
		}
		route := rtnl.Route{To: netip.PrefixFrom(address, address.BitLen()), Device: device, ECN: true}
		if err := b.conns[name].AddRoute(route); err != nil {
			return fmt.Errorf("route to %s with ECN: %w", address, err)
		}
	}
	return nil
}

func (b *builder) routesOf(name string) (routes []scenario.Route) {
	for _, r := range b.cell.Routes {
		if r.From == name {
			routes = append(routes, r)
		}
	}
	return routes
}

// joined replaces the routes of a host with a single link by one route per family: in a star of a
// hundred hosts each has four hundred, all over the hub. Destinations with ECN keep theirs. If the
// common prefix includes lab addresses that the host has no route to, it keeps all. Routers keep
// all too: two with such routes could form a loop for unassigned addresses.
func (b *builder) joined(name string, routes []scenario.Route, ecn map[netip.Addr]string) (left []scenario.Route) {
	if b.node(name).Router || b.linksOf(name) != 1 {
		return routes
	}
	own := map[netip.Addr]bool{}
	families := map[bool][]scenario.Route{}
	for _, r := range routes {
		if _, alone := ecn[r.To.Addr()]; alone || !r.To.IsSingleIP() {
			left = append(left, r)
			own[r.To.Addr()] = true
			continue
		}
		families[r.To.Addr().Is4()] = append(families[r.To.Addr().Is4()], r)
	}
	for _, each := range families {
		if whole, ok := b.join(name, each, own); ok {
			left = append(left, whole)
		} else {
			left = append(left, each...)
		}
	}
	return left
}

// join combines several routes over one hop. It returns false if the common prefix covers an
// address in own: those have other routes.
func (b *builder) join(name string, routes []scenario.Route, own map[netip.Addr]bool) (scenario.Route, bool) {
	whole, reached := routes[0], map[netip.Addr]bool{}
	for _, r := range routes {
		if r.Hop != whole.Hop || r.Via != whole.Via {
			return scenario.Route{}, false
		}
		whole.To = common(whole.To, r.To)
		reached[r.To.Addr()] = true
	}
	if len(routes) < 2 || whole.To.Bits() == 0 {
		return scenario.Route{}, false
	}
	for i := range b.plan.ends {
		if b.plan.ends[i].Node == name || b.plan.ends[i^1].Node == name {
			continue // the link's subnet is the longer prefix
		}
		for _, address := range b.addresses(i) {
			a := address.Addr()
			if a.IsValid() && whole.To.Contains(a) && !reached[a] && !own[a] {
				return scenario.Route{}, false
			}
		}
	}
	return whole, true
}

func (b *builder) linksOf(name string) (n int) {
	for _, end := range b.plan.ends {
		if end.Node == name {
			n++
		}
	}
	return n
}

// common is the longest prefix that contains both, of one family.
func common(a, b netip.Prefix) netip.Prefix {
	bits := min(a.Bits(), b.Bits())
	for ; bits > 0; bits-- {
		if p := netip.PrefixFrom(a.Addr(), bits).Masked(); p.Contains(b.Addr()) {
			return p
		}
	}
	return netip.PrefixFrom(a.Addr(), 0).Masked()
}

// ecnDestinations returns the destinations of the node's flows with ECN, and the device of direct
// neighbours.
func (b *builder) ecnDestinations(name string) map[netip.Addr]string {
	destinations := map[netip.Addr]string{}
	for i, end := range b.plan.ends {
		if !ecnWanted(b.cell, name, end.Node) {
			continue
		}
		for _, address := range b.addresses(i) {
			if !address.IsValid() {
				continue
			}
			device := ""
			if other := b.plan.ends[i^1]; other.Node == name {
				device = other.Device
			}
			destinations[address.Addr()] = device
		}
	}
	return destinations
}
