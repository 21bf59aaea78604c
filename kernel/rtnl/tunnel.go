// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Tunnel is a kind of tunnel device.
type Tunnel string

const (
	VXLAN Tunnel = "vxlan" // Ethernet in UDP (RFC 7348), port 4789
	GRE   Tunnel = "gre"   // IP in GRE (RFC 2784)
	IPIP  Tunnel = "ipip"  // IPv4 in IPv4 (RFC 2003)
)

// ErrNoTunnel is returned if the kernel lacks a kind of tunnel.
var ErrNoTunnel = errors.New("the kernel has no tunnels of this kind")

// AddTunnel creates a tunnel device, down, between two IPv4 addresses, or IPv6 ones for VXLAN. The
// error is ErrNoTunnel if the kernel lacks the kind.
func (c *Conn) AddTunnel(kind Tunnel, name string, local, remote netip.Addr) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	here, there := local.AsSlice(), remote.AsSlice()
	var device netlink.Link
	switch kind {
	case VXLAN:
		device = &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 42, SrcAddr: here, Group: there, Port: 4789, Learning: true}
	case GRE:
		device = &netlink.Gretun{LinkAttrs: attrs, Local: here, Remote: there, PMtuDisc: 1}
	case IPIP:
		device = &netlink.Iptun{LinkAttrs: attrs, Local: here, Remote: there, PMtuDisc: 1}
	default:
		return fmt.Errorf("add tunnel %s: %q is no kind of tunnel", name, kind)
	}
	err := c.handle.LinkAdd(device)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = ErrNoTunnel
	}
	if err != nil {
		return fmt.Errorf("add %s tunnel %s: %w", kind, name, err)
	}
	return nil
}
