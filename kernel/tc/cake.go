// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"math"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
)

// CakeSpec describes cake (tc-cake(8)) with its defaults: three tins by DSCP, fairness of hosts and
// flows, marks where a packet is ECN-capable. Zero fields take the kernel's defaults.
type CakeSpec struct {
	Rate             units.BitRate
	Overhead         uint16 // bytes per packet beyond its Ethernet frame
	Target, Interval time.Duration
	Limit            units.ByteSize // of the kernel's memory that its packets take
	BestEffort       bool           // one tin for all DSCPs
	Whole            bool           // super-packets are not split
}

// AddCake makes a CAKE shaper.
func (c *Conn) AddCake(dev string, at Place, spec CakeSpec) error {
	if spec.Rate < 8 {
		return fault.New(fault.Usage, "give it a rate", "add cake to %s: no rate", dev)
	}
	return c.Add("cake", dev, at, CakeRaw(at, spec).Options)
}

// CakeRaw describes the qdisc of AddCake, and CAKE without a rate below a shaping parent.
func CakeRaw(at Place, spec CakeSpec) Raw {
	const rate64, mode, overhead, rtt, target, memory, split, ethernet = 2, 3, 6, 7, 8, 10, 17, 14
	const oneTin = 3 // CAKE_DIFFSERV_BESTEFFORT
	b := attribute(nil, rate64, long(uint64(spec.Rate)/8))
	if spec.Rate > 0 {
		// With an overhead cake counts from the IP header on.
		b = attribute(b, overhead, words(uint32(spec.Overhead)+ethernet))
	}
	if spec.BestEffort {
		b = attribute(b, mode, words(oneTin))
	}
	if spec.Whole {
		b = attribute(b, split, words(0))
	}
	for _, field := range []struct {
		kind  uint16
		value uint64
	}{{rtt, uint64(spec.Interval.Microseconds())}, {target, uint64(spec.Target.Microseconds())}, {memory, uint64(spec.Limit)}} {
		if field.value > 0 {
			b = attribute(b, field.kind, words(uint32(min(field.value, math.MaxUint32))))
		}
	}
	return Raw{Kind: "cake", Parent: at.parent(), Handle: at.Handle, Options: b}
}
