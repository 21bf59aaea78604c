// SPDX-License-Identifier: Apache-2.0

// Package nexthop finds out how a frame for an address must be addressed: the device's own
// addresses, and the link-layer address of the neighbour that the route leads to.
//
// A neighbour that is not known yet is asked for by a UDP datagram without payload to the discard
// port, bound to the device.
package nexthop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// ErrNone says that the namespace has no route to the address over the device.
var ErrNone = errors.New("no route")

// ErrSilent says that the next hop does not answer ARP or neighbour discovery.
var ErrSilent = errors.New("the next hop does not answer")

// inside runs f with a netlink handle in ns; nil is the calling thread's namespace.
func inside(ns *netns.Namespace, f func(*netlink.Handle) error) error {
	return ns.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open rtnetlink socket: %w", err)
		}
		defer handle.Close()
		return f(handle)
	})
}

// Address returns the device's first global address of the family (4 or 6); the zero address where
// it has none.
func Address(ns *netns.Namespace, device string, family int) (netip.Addr, error) {
	var found netip.Addr
	err := inside(ns, func(handle *netlink.Handle) error {
		link, err := handle.LinkByName(device)
		if err != nil {
			return err
		}
		kind := netlink.FAMILY_V4
		if family == 6 {
			kind = netlink.FAMILY_V6
		}
		addresses, err := handle.AddrList(link, kind)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			address, ok := netip.AddrFromSlice(a.IP)
			if ok && !address.Unmap().IsLinkLocalUnicast() {
				found = address.Unmap()
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("addresses of %s: %w", device, err)
	}
	return found, nil
}

// Resolve returns the link-layer address that a frame for to must carry when it leaves through the
// device. Errors wrap [ErrNone] or [ErrSilent]. It waits for an answer for as long as ctx allows,
// at most two seconds.
func Resolve(ctx context.Context, ns *netns.Namespace, device string, to netip.Addr) (net.HardwareAddr, error) {
	var mac net.HardwareAddr
	err := inside(ns, func(handle *netlink.Handle) error {
		link, err := handle.LinkByName(device)
		if err != nil {
			return err
		}
		hop, err := gateway(handle, link.Attrs().Index, device, to)
		if err != nil {
			return err
		}
		if mac = known(handle, link.Attrs().Index, hop); mac != nil {
			return nil
		}
		if err := provoke(device, hop, link.Attrs().Index); err != nil {
			return err
		}
		ticker, limit := time.NewTicker(10*time.Millisecond), time.After(2*time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if mac = known(handle, link.Attrs().Index, hop); mac != nil {
					return nil
				}
			case <-limit:
				return fmt.Errorf("%s: %w", hop, ErrSilent)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find next hop for %s over %s: %w", to, device, err)
	}
	return mac, nil
}

// gateway is the next address on the way to to: a router's, or to itself on the link.
func gateway(handle *netlink.Handle, index int, device string, to netip.Addr) (netip.Addr, error) {
	routes, err := handle.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{Oif: device})
	if err != nil || len(routes) == 0 {
		return netip.Addr{}, ErrNone
	}
	route := routes[0]
	if route.LinkIndex != index {
		return netip.Addr{}, ErrNone
	}
	if hop, ok := netip.AddrFromSlice(route.Gw); ok {
		return hop.Unmap(), nil
	}
	// Asked for a device, the kernel invents a direct route where the table has none: believe it
	// only if a route covers to.
	covered, err := handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return netip.Addr{}, err
	}
	for _, r := range covered {
		if r.Dst == nil || r.Dst.Contains(to.AsSlice()) {
			return to, nil
		}
	}
	return netip.Addr{}, ErrNone
}

// known is the neighbour's link-layer address if the kernel has one it trusts.
func known(handle *netlink.Handle, index int, hop netip.Addr) net.HardwareAddr {
	family := netlink.FAMILY_V4
	if hop.Is6() {
		family = netlink.FAMILY_V6
	}
	neighbours, err := handle.NeighList(index, family)
	if err != nil {
		return nil
	}
	const trusted = netlink.NUD_PERMANENT | netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_NOARP
	for _, n := range neighbours {
		if address, ok := netip.AddrFromSlice(n.IP); ok && address.Unmap() == hop && n.State&trusted != 0 && len(n.HardwareAddr) == 6 {
			return n.HardwareAddr
		}
	}
	return nil
}

// provoke makes the kernel resolve hop: a datagram that waits for the answer. Run inside the
// namespace.
func provoke(device string, hop netip.Addr, index int) error {
	domain, to := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: 9, Addr: as4(hop)})
	if hop.Is6() {
		domain, to = unix.AF_INET6, &unix.SockaddrInet6{Port: 9, Addr: hop.As16(), ZoneId: uint32(index)}
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("ask for neighbour: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.BindToDevice(fd, device); err != nil {
		return fmt.Errorf("ask for neighbour: %w", err)
	}
	if err := unix.Sendto(fd, nil, unix.MSG_DONTWAIT, to); err != nil {
		return fmt.Errorf("ask for neighbour: %w", err)
	}
	return nil
}

func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}
