// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Overlap describes an address or route of the namespace that overlaps with a prefix, in any table
// except default routes. It returns "" if there is none.
func (c *Conn) Overlap(p netip.Prefix) (string, error) {
	family := netlink.FAMILY_V4
	if p.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	addresses, err := dump(func() ([]netlink.Addr, error) { return c.handle.AddrList(nil, family) })
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if have, ok := prefixOf(a.IPNet); ok && have.Overlaps(p) {
			return "address " + a.IPNet.String(), nil
		}
	}
	filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	routes, err := dump(func() ([]netlink.Route, error) {
		return c.handle.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return "", fmt.Errorf("list routes: %w", err)
	}
	for _, route := range routes {
		if have, ok := prefixOf(route.Dst); ok && have.Bits() > 0 && have.Overlaps(p) {
			return fmt.Sprintf("route to %s in table %d", have, route.Table), nil
		}
	}
	return "", nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if v4 := address.Unmap(); v4.Is4() && bits == 32 {
		address = v4
	}
	return netip.PrefixFrom(address, ones).Masked(), ok
}
