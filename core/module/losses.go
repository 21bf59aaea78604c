// SPDX-License-Identifier: Apache-2.0

package module

import (
	"slices"
	"time"
)

// Probes holds the small packets of one repetition: requests into the scope and their answers.
type Probes struct {
	Sent uint64          `json:"sent"` // during the measured flow
	Lost uint64          `json:"lost"` // of Sent
	Idle []time.Duration `json:"-"`    // round trips before the flow
	Load []time.Duration `json:"-"`    // round trips during the flow
}

// Losses holds the loss and delay that users of a scope see.
type Losses struct {
	// Again is the share of retransmitted bytes among the bytes sent by TCP, spurious
	// retransmissions included.
	Again float64 `json:"sent_again"`
	Sent  uint64  `json:"small_packets,omitempty"`
	Lost  uint64  `json:"small_packets_lost,omitempty"`
	// Idle is the median round trip of small packets before the flow; P50 and P99 are percentiles
	// during it. All are 0 without an answer.
	Idle time.Duration `json:"idle_ns,omitempty"`
	P50  time.Duration `json:"p50_ns,omitempty"`
	P99  time.Duration `json:"p99_ns,omitempty"`
}

// LossesOf aggregates repetitions.
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

// quantile returns the percentile of all; 0 if empty.
func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)*percent+99)/100-1]
}
