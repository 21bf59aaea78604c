// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"weir/kernel/ethtool"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

const etherHeader = 14 // bytes

// Traffic reads the counters of all devices of a namespace, by name, with Ethernet headers included
// in the bytes of all frames. conn belongs to that namespace.
//
// veth counts frames received by NAPI without the header, and frames passed to the peer's stack
// with it (veth_xdp_rcv and veth_xmit). Frames sent by XDP count with the header in both cases; for
// them the byte count here is too high.
func Traffic(conn *rtnl.Conn, ns *netns.Namespace) (map[string]rtnl.Traffic, error) {
	all, err := conn.AllTraffic()
	if err != nil {
		return nil, err
	}
	for name, traffic := range all {
		stats, err := ethtool.Stats(ns, name)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP): // lo, for example
			continue
		case err != nil:
			return nil, fmt.Errorf("count bytes: %w", err)
		}
		for counter, frames := range stats {
			if strings.HasPrefix(counter, "rx_queue_") && strings.HasSuffix(counter, "_xdp_packets") {
				traffic.ReceivedOctets += etherHeader * frames
			}
		}
		all[name] = traffic
	}
	return all, nil
}
