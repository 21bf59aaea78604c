// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"weir/internal/kernel/netns"
)

// Ends are the veth devices here whose other ends are in another network namespace; nil is any
// other.
func (c *Conn) Ends(other *netns.Namespace) (ends []Device, err error) {
	id := -1
	if other != nil {
		if id, err = c.handle.GetNetNsIdByFd(other.FD()); err != nil {
			return nil, fmt.Errorf("look up the network namespace %s: %w", other.Path(), err)
		}
		if id < 0 {
			return nil, nil // no device leads there
		}
	}
	links, err := dump(c.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, link := range links {
		at := link.Attrs().NetNsID
		if link.Type() == "veth" && at >= 0 && (other == nil || at == id) {
			ends = append(ends, describe(link))
		}
	}
	return ends, nil
}
