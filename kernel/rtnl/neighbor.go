// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Neighbor is the link-layer address of an address on a device's link.
type Neighbor struct {
	Device  string
	Address netip.Addr
	MAC     net.HardwareAddr
}

// AddNeighbor adds a permanent neighbour entry, which needs no ARP or neighbour discovery. It
// replaces an entry for the same address.
func (c *Conn) AddNeighbor(dev string, a netip.Addr, mac net.HardwareAddr) error {
	err := c.change("find", dev, func(link netlink.Link) error {
		return c.handle.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac,
		})
	})
	if err != nil {
		return fmt.Errorf("add neighbour %s: %w", a, err)
	}
	return nil
}

// Neighbors returns the permanent entries of both families.
func (c *Conn) Neighbors() ([]Neighbor, error) {
	name, err := c.names()
	if err != nil {
		return nil, err
	}
	var all []Neighbor
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := dump(func() ([]netlink.Neigh, error) { return c.handle.NeighList(0, family) })
		if err != nil {
			return nil, fmt.Errorf("list neighbours: %w", err)
		}
		for _, n := range found {
			if a, ok := netip.AddrFromSlice(n.IP); ok && n.State == netlink.NUD_PERMANENT {
				all = append(all, Neighbor{Device: name[n.LinkIndex], Address: a.Unmap(), MAC: n.HardwareAddr})
			}
		}
	}
	return all, nil
}

// RemoveNeighbor removes an entry. A missing entry or device is no error.
func (c *Conn) RemoveNeighbor(dev string, a netip.Addr) error {
	err := c.change("find", dev, func(link netlink.Link) error {
		return c.handle.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: a.AsSlice()})
	})
	if err != nil && !gone(err) {
		return fmt.Errorf("remove neighbour %s: %w", a, err)
	}
	return nil
}

func gone(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}
