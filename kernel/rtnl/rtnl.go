// SPDX-License-Identifier: Apache-2.0

// Package rtnl changes the devices, addresses, routes and neighbours of one network namespace
// through rtnetlink.
//
// The socket of a [Conn] stays in its namespace, so a Conn works from any goroutine and thread.
// Changes last until the namespace is removed.
package rtnl

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/kernel/netns"
)

// Conn is an rtnetlink socket in one namespace, safe for concurrent use until Close. Create one
// with [Open].
type Conn struct {
	handle *netlink.Handle
}

// Device is a network device as the kernel reports it.
type Device struct {
	Name    string
	Other   []string // alternative names (ip link property)
	Kind    string   // as in ip link, such as veth or ifb; "device" if the kernel reports none
	Index   int
	MAC     net.HardwareAddr // empty for devices without a link layer
	MTU     int              // bytes of the network-layer packet
	Master  int              // index of its bridge, bond or VRF; 0 for none
	Below   int              // index of the device that a VLAN, macvlan or tunnel sends through; 0 for none
	Up      bool             // administratively up
	Running bool             // up, and with a carrier
	XDP     uint32           // id of the XDP program attached; 0 for none
	Queues  int              // receive queues; 0 if unknown (without CONFIG_RPS)
	Senders int              // transmit queues; 0 if unknown
	Header  int              // bytes of the link-layer header: 14 for Ethernet and loopback, else 0
}

// Open returns a Conn to ns; nil means the calling thread's own namespace.
func Open(ns *netns.Namespace) (*Conn, error) {
	conn := &Conn{}
	err := ns.Do(func() (err error) {
		conn.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return conn, nil
}

// Close releases the socket.
func (c *Conn) Close() { c.handle.Close() }

// AddVeth creates a veth pair, name here and peerName in peer (nil: here too), both down. An MTU of
// 0 means 1500.
func (c *Conn) AddVeth(name string, peer *netns.Namespace, peerName string, mtu int) error {
	if mtu == 0 {
		mtu = 1500
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = peerName, uint32(mtu)
	if peer != nil {
		veth.PeerNamespace = netlink.NsFd(peer.FD())
	}
	if err := c.handle.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth %s and %s: %w", name, peerName, err)
	}
	return nil
}

// SetUp brings a device up.
func (c *Conn) SetUp(dev string) error {
	return c.change("set up", dev, func(link netlink.Link) error { return c.handle.LinkSetUp(link) })
}

// SetDown takes a device down; its routes go with it.
func (c *Conn) SetDown(dev string) error {
	return c.change("set down", dev, func(link netlink.Link) error { return c.handle.LinkSetDown(link) })
}

// Delete removes a device, and the peer of a veth device.
func (c *Conn) Delete(dev string) error {
	return c.change("delete", dev, func(link netlink.Link) error { return c.handle.LinkDel(link) })
}

// SetMTU sets a device's MTU in bytes.
func (c *Conn) SetMTU(dev string, mtu int) error {
	return c.change("set MTU of", dev, func(link netlink.Link) error { return c.handle.LinkSetMTU(link, mtu) })
}

func (c *Conn) change(what, dev string, f func(netlink.Link) error) error {
	link, err := c.handle.LinkByName(dev)
	if err == nil {
		err = f(link)
	}
	if err != nil {
		return fmt.Errorf("%s device %s: %w", what, dev, err)
	}
	return nil
}

// Device returns the device named dev.
func (c *Conn) Device(dev string) (Device, error) {
	link, err := c.handle.LinkByName(dev)
	if err != nil {
		return Device{}, fmt.Errorf("find device %s: %w", dev, err)
	}
	return describe(link), nil
}

// Named returns the device with a name: the kernel's, or an alternative one.
func Named(all []Device, name string) (Device, bool) {
	i := slices.IndexFunc(all, func(d Device) bool { return d.Name == name })
	if i < 0 {
		i = slices.IndexFunc(all, func(d Device) bool { return slices.Contains(d.Other, name) })
	}
	if i < 0 {
		return Device{}, false
	}
	return all[i], true
}

// Devices returns all devices of the namespace by index.
func (c *Conn) Devices() ([]Device, error) {
	links, err := dump(c.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	devices := make([]Device, len(links))
	for i, link := range links {
		devices[i] = describe(link)
	}
	return devices, nil
}

func describe(link netlink.Link) Device {
	attrs := link.Attrs()
	device := Device{
		Name: attrs.Name, Other: attrs.AltNames, Kind: link.Type(), Index: attrs.Index, MAC: attrs.HardwareAddr, MTU: attrs.MTU, Master: attrs.MasterIndex,
		Below:   attrs.ParentIndex,
		Up:      attrs.RawFlags&unix.IFF_UP != 0,
		Running: attrs.RawFlags&unix.IFF_RUNNING != 0,
		Queues:  attrs.NumRxQueues,
		Senders: attrs.NumTxQueues,
	}
	if device.Kind == "veth" { // its link is the peer
		device.Below = 0
	}
	if attrs.EncapType == "ether" || attrs.EncapType == "loopback" {
		device.Header = 14
	}
	if attrs.Xdp != nil && attrs.Xdp.Attached {
		device.XDP = attrs.Xdp.ProgId
	}
	return device
}

// dump repeats a listing that the kernel marks as inconsistent because of a concurrent change.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 1; ; attempt++ {
		items, err := list()
		if attempt == 10 || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return items, err
		}
	}
}
