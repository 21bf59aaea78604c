// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route is a unicast route of the main table.
type Route struct {
	To         netip.Prefix // the zero prefix means the default route of Via's family
	Via        netip.Addr   // the zero address means that To is on the link
	Device     string       // empty if Via determines it
	Source     netip.Addr   // preferred source address; the zero address leaves it to the kernel
	Protocol   uint8        // origin of the route (rtm_protocol in rtnetlink(7)); 0 leaves it to the kernel
	Metric     uint32       // the route with the lowest metric wins; 0 leaves it to the kernel
	ECN        bool         // TCP connections on this route request ECN ("features ecn")
	Congestion string       // congestion control of TCP connections on this route; empty for the namespace's default
	InitCwnd   uint32       // initial congestion window in segments; 0 for the kernel's default
}

// AddAddress adds an address and the route to its prefix to a device. It skips duplicate address
// detection, which would delay the use of an IPv6 address by 1 to 2 s.
func (c *Conn) AddAddress(dev string, p netip.Prefix) error {
	err := c.change("find", dev, func(link netlink.Link) error {
		address := &netlink.Addr{IPNet: ipnet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		return c.handle.AddrAdd(link, address)
	})
	if err != nil {
		return fmt.Errorf("add address %s: %w", p, err)
	}
	return nil
}

// AddRoute adds a route. An existing route to the same prefix is an error.
func (c *Conn) AddRoute(r Route) error {
	if err := c.addRoute(r); err != nil {
		return fmt.Errorf("add route to %s: %w", r.To, err)
	}
	return nil
}

func (c *Conn) addRoute(r Route) error {
	to := r.To
	if !to.IsValid() {
		if !r.Via.IsValid() {
			return fmt.Errorf("neither a prefix nor a gateway")
		}
		to = netip.PrefixFrom(r.Via, 0)
	}
	route := &netlink.Route{Dst: ipnet(to.Masked()), Congctl: r.Congestion, InitCwnd: int(r.InitCwnd),
		Protocol: netlink.RouteProtocol(r.Protocol), Priority: int(r.Metric)}
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	if r.ECN {
		route.Features = 1 // RTAX_FEATURE_ECN
	}
	if r.Device != "" {
		link, err := c.handle.LinkByName(r.Device)
		if err != nil {
			return fmt.Errorf("device %s: %w", r.Device, err)
		}
		route.LinkIndex = link.Attrs().Index
	}
	return c.handle.RouteAdd(route)
}

// RoutesOf returns the single-device routes of a protocol in all tables and both families, with To,
// Device, Source, Protocol and Metric.
func (c *Conn) RoutesOf(protocol uint8) ([]Route, error) {
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC, Protocol: netlink.RouteProtocol(protocol)}
	found, err := dump(func() ([]netlink.Route, error) {
		return c.handle.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var routes []Route
	for _, r := range found {
		to, ok := prefixOf(r.Dst)
		if !ok || names[r.LinkIndex] == "" {
			continue
		}
		source, _ := netip.AddrFromSlice(r.Src)
		routes = append(routes, Route{To: to, Device: names[r.LinkIndex], Source: source.Unmap(), Protocol: protocol, Metric: uint32(r.Priority)})
	}
	return routes, nil
}

// names maps indices to the namespace's devices.
func (c *Conn) names() (map[int]string, error) {
	devices, err := c.Devices()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, d := range devices {
		names[d.Index] = d.Name
	}
	return names, nil
}

// RemoveRoute removes the route to a prefix over a device. A missing route or device is no error.
func (c *Conn) RemoveRoute(r Route) error {
	err := c.change("find", r.Device, func(link netlink.Link) error {
		// This scope matches any.
		return c.handle.RouteDel(&netlink.Route{Dst: ipnet(r.To.Masked()), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_NOWHERE})
	})
	if err != nil && !gone(err) {
		return fmt.Errorf("remove route to %s: %w", r.To, err)
	}
	return nil
}

// DeviceTo returns the device of the route to an address; lo for local addresses.
func (c *Conn) DeviceTo(a netip.Addr) (string, error) {
	routes, err := c.handle.RouteGet(a.AsSlice())
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return "", fmt.Errorf("find route to %s: %w", a, err)
	}
	link, err := c.handle.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("find route to %s: %w", a, err)
	}
	return link.Attrs().Name, nil
}

// DefaultRouteDevices returns the names of the devices with a default route of either family,
// sorted.
func (c *Conn) DefaultRouteDevices() ([]string, error) {
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN}
	routes, err := dump(func() ([]netlink.Route, error) {
		return c.handle.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	name, err := c.names()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, route := range routes {
		if !isDefault(route) {
			continue
		}
		names = append(names, name[route.LinkIndex])
		for _, hop := range route.MultiPath {
			names = append(names, name[hop.LinkIndex])
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), nil
}

func isDefault(route netlink.Route) bool {
	if route.Type != unix.RTN_UNICAST || route.Dst == nil {
		return route.Type == unix.RTN_UNICAST
	}
	ones, _ := route.Dst.Mask.Size()
	return ones == 0 && route.Dst.IP.IsUnspecified()
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
