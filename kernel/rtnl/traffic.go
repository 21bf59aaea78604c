// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Traffic holds the counters of a device. The driver decides whether bytes include the link-layer
// header: for veth, only frames received without NAPI and XDP frames do.
type Traffic struct {
	SentPackets, SentOctets, ReceivedPackets, ReceivedOctets uint64
	SentDropped, ReceivedDropped                             uint64 // packets
}

// Traffic reads the counters of a device.
func (c *Conn) Traffic(dev string) (Traffic, error) {
	link, err := c.handle.LinkByName(dev)
	if err != nil {
		return Traffic{}, fmt.Errorf("read counters of device %s: %w", dev, err)
	}
	return trafficOf(link), nil
}

// AllTraffic reads the counters of all devices, by name.
func (c *Conn) AllTraffic() (map[string]Traffic, error) {
	links, err := dump(c.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("read counters of devices: %w", err)
	}
	all := map[string]Traffic{}
	for _, link := range links {
		all[link.Attrs().Name] = trafficOf(link)
	}
	return all, nil
}

func trafficOf(link netlink.Link) Traffic {
	s := link.Attrs().Statistics
	if s == nil {
		return Traffic{}
	}
	return Traffic{SentPackets: s.TxPackets, SentOctets: s.TxBytes, ReceivedPackets: s.RxPackets, ReceivedOctets: s.RxBytes,
		SentDropped: s.TxDropped, ReceivedDropped: s.RxDropped}
}
