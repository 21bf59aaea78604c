// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"

	"github.com/cilium/ebpf"

	"weir/internal/units"
	"weir/kernel/ethtool"
)

// assumedRate is the rate of interfaces with unknown speed.
const assumedRate units.BitRate = 100_000_000

// flagged returns the bytes per second that each CPU may flag or send back.
func (p *hostPlane) flagged(there []place, n Node) (uint32, error) {
	slowest := units.BitRate(0)
	for _, i := range there {
		if !i.Ingress && !i.Egress {
			continue
		}
		rate, err := ethtool.Speed(p.ns, i.Device.Name)
		if err != nil {
			return 0, err
		}
		if rate == 0 {
			rate = assumedRate
		}
		if slowest == 0 || rate < slowest {
			slowest = rate
		}
	}
	octets := uint64(slowest) / 8 / uint64(max(n.FlagShare, 2)) / uint64(ebpf.MustPossibleCPU())
	return uint32(min(octets, math.MaxUint32)), nil
}
