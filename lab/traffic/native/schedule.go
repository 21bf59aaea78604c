// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"
	"time"

	"weir/internal/units"
)

// schedule gives the due time of each datagram of a constant rate.
type schedule struct {
	gap   float64 // ns from one datagram to the next
	total uint64  // datagrams within the duration
}

func newSchedule(rate units.BitRate, payload int, duration time.Duration) schedule {
	gap := float64(payload) * 8 / float64(rate) * 1e9
	return schedule{gap: gap, total: uint64(math.Ceil(float64(duration) / gap))}
}

// due is the send time of datagram n since the flow began.
func (s schedule) due(n uint64) time.Duration { return time.Duration(float64(n) * s.gap) }

// ready is the number of datagrams due by now, after the first n.
func (s schedule) ready(n uint64, now time.Duration) uint64 {
	by := min(uint64(float64(now)/s.gap)+1, s.total)
	if by < n {
		return 0
	}
	return by - n
}
