// SPDX-License-Identifier: Apache-2.0

// Package nexthop returns the addresses of a frame to a destination: those of the device, and the
// link-layer address of the next hop.
//
// It resolves an unknown neighbour by an empty UDP datagram to the discard port, bound to the
// device.
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

// ErrNone is returned if the namespace has no route to the address over the device.
var ErrNone = errors.New("no route")

// ErrSilent is returned if the next hop does not answer ARP or neighbour discovery.
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

// Address returns the device's first global address of the family (4 or 6), or the zero address.
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

// Resolve returns the destination link-layer address of a frame to an address through the device.
// Errors wrap [ErrNone] or [ErrSilent]. It waits for an answer until ctx ends, at most two seconds.
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

// gateway returns the next hop to an address: a router, or the address itself on the link.
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
	// For a lookup with a device the kernel assumes a direct route if the table has none: require a
	// route that covers to.
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

// known returns the neighbour's link-layer address if the kernel has a valid one.
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

// provoke makes the kernel resolve hop by a datagram. Run it inside the namespace.
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
