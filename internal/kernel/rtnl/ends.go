// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"weir/internal/kernel/netns"
)

// Ends are the veth devices here whose other ends are in another network namespace.
func (c *Conn) Ends(other *netns.Namespace) (ends []Device, err error) {
	id, err := c.handle.GetNetNsIdByFd(other.FD())
	if err != nil {
		return nil, fmt.Errorf("look up the network namespace %s: %w", other.Path(), err)
	}
	links, err := dump(c.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, link := range links {
		if link.Type() == "veth" && id >= 0 && link.Attrs().NetNsID == id {
			ends = append(ends, describe(link))
		}
	}
	return ends, nil
}
