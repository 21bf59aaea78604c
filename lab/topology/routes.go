// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"

	"weir/internal/kernel/rtnl"
)

// addRoutes adds the node's routes of the cell. A destination that some flow of this node wants to
// reach with ECN gets the ECN feature, with a route of its own if it is a direct neighbour.
func (b *builder) addRoutes(name string) error {
	ecn := b.ecnDestinations(name)
	for _, r := range b.cell.Routes {
		if r.From != name {
			continue
		}
		route := rtnl.Route{To: r.To, Via: r.Hop} // the hop tells the device, since every link has subnets of its own
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

// ecnDestinations returns the addresses that the node's flows want to reach with ECN, and the
// device of those that are direct neighbours.
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
