// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"net/netip"

	"weir/lab/link"
)

// Crossed returns a direction of each emulated link on the path between two nodes, in order, for
// the other's IPv4 address. It is nil without a path.
func (c *Cell) Crossed(from, to string) []link.Direction {
	address, known := c.Address(to, 4)
	if !known {
		return nil
	}
	var all []link.Direction
	here := from
	for range c.Nodes { // no path is longer
		if here == to {
			return all
		}
		l := c.next(here, address)
		if l == nil {
			return nil
		}
		d, there := l.Forward, l.B
		if here == l.B {
			d, there = l.Reverse, l.A
		}
		if !l.Plain {
			all = append(all, d)
		}
		here = there
	}
	return nil
}

// next is a node's link for an address: by its route, else a link with that address.
func (c *Cell) next(node string, address netip.Addr) *Link {
	via := ""
	for _, r := range c.Routes {
		if r.From == node && r.To.Contains(address) {
			via = r.Via
		}
	}
	for i := range c.Links {
		l := &c.Links[i]
		ends := l.A == node || l.B == node
		if ends && (l.Name == via || via == "" && l.AddressA4.Contains(address)) {
			return l
		}
	}
	return nil
}
