// SPDX-License-Identifier: Apache-2.0

package rtnl

import "fmt"

// Peer returns the index of the other end of a veth device, in the network namespace of that end;
// 0 for a device of another kind.
func (c *Conn) Peer(dev string) (index int, err error) {
	link, err := c.handle.LinkByName(dev)
	if err != nil {
		return 0, fmt.Errorf("find device %s: %w", dev, err)
	}
	if link.Type() != "veth" {
		return 0, nil
	}
	return link.Attrs().ParentIndex, nil
}
