// SPDX-License-Identifier: Apache-2.0

package edt

import (
	"math"
	"math/bits"
	"time"

	"weir/lab/link"
	"weir/lab/link/model"
)

const (
	always     = 1 << 32            // a chance
	longest    = 1000 * time.Second // of a delay, well within fq's horizon
	deviations = 6                  // maximum jitter in standard deviations
	smallest   = 60                 // bytes of a frame
	fewest     = 64                 // entries of a ring
	maxRing    = 1 << 17            // entries of a ring
	maxQueue   = 64 << 20           // bytes of a queue without a requested limit
)

// configure converts a direction to the constants of its program.
func configure(d link.Direction, target int) wayEdtConfig {
	losses := d.Loss.Chain()
	c := wayEdtConfig{
		DelayNs: uint64(d.Delay), JitterNs: uint64(d.Jitter),
		LimitOctets: uint64(d.Queue.Bytes), LimitPackets: uint32(d.Queue.Packets), MarkOctets: uint64(d.Queue.ECN),
		ToBad: odds(losses.ToBad), ToGood: odds(losses.ToGood), LostGood: odds(losses.Good), LostBad: odds(losses.Bad),
		EveryNth: uint32(losses.Nth),
		Reorder:  odds(d.Reorder), Duplicate: odds(d.Duplicate), Corrupt: odds(d.Corrupt),
		Overhead: link.FrameOverhead, Target: uint32(target), RingMask: uint32(ring(d)) - 1,
	}
	if d.Rate > 0 {
		c.OctetTime = uint64(math.Round(8e9 * (1 << timeShift) / float64(d.Rate)))
		if d.Queue.Bytes == 0 && d.Queue.Packets == 0 {
			c.LimitOctets = uint64(min(float64(d.Rate)/8, maxQueue))
		}
	}
	if d.KeepOrder {
		c.KeepOrder = 1
	}
	return c
}

const (
	timeShift     = 20 // EDT_TIME_SHIFT
	quantileShift = 20 // EDT_QUANTILE_SHIFT
)

func odds(p float64) uint64 { return uint64(math.Round(p * always)) }

// ring returns the capacity in frames: a power of two. Beyond it frames are dropped as by a full
// queue.
func ring(d link.Direction) int {
	most := fewest
	switch {
	case d.Rate == 0: // nothing waits
	case d.Queue.Packets > 0:
		most = d.Queue.Packets
	case d.Queue.Bytes > 0:
		most = int(min(int64(d.Queue.Bytes)/smallest, maxRing))
	default:
		most = int(min(float64(d.Rate)/8/smallest, maxQueue/smallest))
	}
	most = min(max(most, fewest), maxRing)
	return 1 << bits.Len(uint(most-1))
}

// shape tabulates the jitter's distribution. Its tails end with the outermost quarter of a step.
func shape(s link.JitterShape) (table wayEdtShape) {
	last := float64(len(table.Quantile) - 1)
	for i := range table.Quantile {
		u := min(max(float64(i), 0.25), last-0.25) / last
		table.Quantile[i] = int32(math.Round(model.Quantile(s, u) * (1 << quantileShift)))
	}
	return table
}
