// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"weir/kernel/netns"
)

// End is a veth device here whose other end is in another network namespace.
type End struct {
	Device
	Other int // the other end's namespace, as this one numbers it
}

// Ends are all of them.
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

// Number is how this network namespace numbers another one; negative where no device leads there.
func (c *Conn) Number(other *netns.Namespace) (int, error) {
	number, err := c.handle.GetNetNsIdByFd(other.FD())
	if err != nil {
		return -1, fmt.Errorf("look up the network namespace %s: %w", other.Path(), err)
	}
	return number, nil
}
