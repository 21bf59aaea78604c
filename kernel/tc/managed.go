// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"math"
	"time"
)

// ManagedSpec describes codel (RFC 8289) or pie (RFC 8033); zero fields take the kernel's defaults.
type ManagedSpec struct {
	Limit  uint32        // packets
	Target time.Duration // delay that is aimed at
	// Interval is codel's time over which it judges, and pie's between two updates, which the
	// kernel rounds to its ticks.
	Interval time.Duration
	ECN      bool // mark instead of dropping where the packet is ECN-capable
}

// AddCoDel makes a queue with controlled delay.
func (c *Conn) AddCoDel(dev string, at Place, spec ManagedSpec) error {
	return c.Add("codel", dev, at, spec.options(4))
}

// AddPIE makes a queue that drops with a probability which follows the delay.
func (c *Conn) AddPIE(dev string, at Place, spec ManagedSpec) error {
	return c.Add("pie", dev, at, spec.options(6))
}

// options encodes the common options of both kinds; ecn is the number of the one that differs.
func (s ManagedSpec) options(ecn uint16) (b []byte) {
	const target, limit, interval = 1, 2, 3
	for _, field := range []struct {
		kind  uint16
		value uint64
	}{{target, micro(s.Target)}, {limit, uint64(s.Limit)}, {interval, micro(s.Interval)}} {
		if field.value > 0 {
			b = attribute(b, field.kind, words(uint32(min(field.value, math.MaxUint32))))
		}
	}
	if s.ECN {
		b = attribute(b, ecn, words(1))
	}
	return b
}

func micro(d time.Duration) uint64 { return uint64(max(0, d.Microseconds())) }

// marks returns the packets marked by a qdisc, from its statistics (linux/pkt_sched.h): codel and
// fq_codel since Linux 3.5, pie since 5.6 with a 64-bit probability.
func marks(kind string, value []byte) uint64 {
	at := -1
	switch {
	case kind == "codel":
		at = 24 // behind maxpacket, count, lastcount, ldelay, drop_next, drop_overlimit
	case kind == "fq_codel" && len(value) >= 4 && binary.NativeEndian.Uint32(value) == 0: // of the qdisc
		at = 12 // behind type, maxpacket, drop_overlimit
	case kind == "pie" && len(value) >= 40:
		at = 36 // behind prob, delay, avg_dq_rate, dq_rate_estimating, packets_in, dropped, overlimit, maxq
	case kind == "pie":
		at = 28
	}
	if at < 0 || len(value) < at+4 {
		return 0
	}
	return uint64(binary.NativeEndian.Uint32(value[at:]))
}
