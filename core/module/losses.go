// SPDX-License-Identifier: Apache-2.0

package module

import (
	"slices"
	"time"
)

// Probes are the small packets of one repetition: sent into the scope and back.
type Probes struct {
	Sent uint64          `json:"sent"` // while the flow beside them was measured
	Lost uint64          `json:"lost"` // of these
	Idle []time.Duration `json:"-"`    // round trips before the flow began
	Load []time.Duration `json:"-"`    // round trips while it was measured
}

// Losses is what the users of a scope lose and wait for.
type Losses struct {
	// Again is the share of the octets that TCP has sent which it sent again; it counts what was
	// dropped and what was thought to be.
	Again float64 `json:"sent_again"`
	Sent  uint64  `json:"small_packets,omitempty"`
	Lost  uint64  `json:"small_packets_lost,omitempty"`
	// Idle is the median round trip of small packets before the flow began, P50 and P99 are of
	// those beside it; all 0 where none came back.
	Idle time.Duration `json:"idle_ns,omitempty"`
	P50  time.Duration `json:"p50_ns,omitempty"`
	P99  time.Duration `json:"p99_ns,omitempty"`
}

// LossesOf sums up repetitions.
func LossesOf(samples []Sample) (l Losses) {
	var left, again uint64
	var idle, load []time.Duration
	for _, s := range samples {
		left, again = left+s.Left, again+s.Again
		l.Sent, l.Lost = l.Sent+s.Probes.Sent, l.Lost+s.Probes.Lost
		idle, load = append(idle, s.Probes.Idle...), append(load, s.Probes.Load...)
	}
	if left > 0 {
		l.Again = float64(again) / float64(left)
	}
	l.Idle, l.P50, l.P99 = quantile(idle, 50), quantile(load, 50), quantile(load, 99)
	return l
}

// quantile is the value that so many of a hundred do not pass; 0 of none.
func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)*percent+99)/100-1]
}
