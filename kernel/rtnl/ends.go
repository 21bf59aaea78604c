// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"weir/kernel/netns"
)

// End is a veth device with its peer in another network namespace.
type End struct {
	Device
	Other int // id of the peer's namespace in this one
}

// Ends returns all such devices.
func (c *Conn) Ends() (ends []End, err error) {
	links, err := dump(c.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, link := range links {
		if other := link.Attrs().NetNsID; link.Type() == "veth" && other >= 0 {
			ends = append(ends, End{describe(link), other})
		}
	}
	return ends, nil
}

// Number returns the id of another network namespace in this one, negative if no device leads
// there.
func (c *Conn) Number(other *netns.Namespace) (int, error) {
	number, err := c.handle.GetNetNsIdByFd(other.FD())
	if err != nil {
		return -1, fmt.Errorf("look up the network namespace %s: %w", other.Path(), err)
	}
	return number, nil
}
