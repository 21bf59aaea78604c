// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"slices"
	"time"

	"weir/core/prove/station"
)

// Disturbance is the effect of the measurement on the path: round-trip times of small best-effort
// packets between its trains and beside them.
type Disturbance struct {
	Octets uint64  `json:"octets"` // sent, in bytes on the wire
	Load   float64 `json:"load"`   // mean of sent data over the whole time, in bit/s
	Idle   Trips   `json:"between_trains"`
	Beside Trips   `json:"beside_trains"`
	// Own is the maximum additional delay of a datagram of a train over the first.
	Own time.Duration `json:"own_queue_ns"`
}

// Trips summarizes round-trip times of small packets.
type Trips struct {
	Sent int           `json:"sent"`
	Lost int           `json:"lost"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
}

// AddedP50 returns the increase of the median round-trip time beside trains.
func (d Disturbance) AddedP50() time.Duration { return d.Beside.P50 - d.Idle.P50 }

// AddedP99 returns the increase of the 99th percentile.
func (d Disturbance) AddedP99() time.Duration { return d.Beside.P99 - d.Idle.P99 }

// disturbance separates small packets beside trains from those between.
func disturbance(all []station.Echo, windows []span) (d Disturbance) {
	beside := func(e station.Echo) bool {
		return slices.ContainsFunc(windows, func(w span) bool { return e.At >= w.from && e.At <= w.to })
	}
	between := func(e station.Echo) bool { return !beside(e) }
	return Disturbance{Idle: tripsOf(all, between), Beside: tripsOf(all, beside)}
}

func tripsOf(all []station.Echo, which func(station.Echo) bool) (t Trips) {
	back := trips(all, which)
	for _, e := range all {
		if which(e) {
			t.Sent++
		}
	}
	t.Lost, t.P50, t.P99 = t.Sent-len(back), quantile(back, 50), quantile(back, 99)
	return t
}

// trips returns the sorted round-trip times of the returned packets for which the function returns
// true; nil selects all.
func trips(all []station.Echo, which func(station.Echo) bool) (back []time.Duration) {
	for _, e := range all {
		if e.RTT > 0 && (which == nil || which(e)) {
			back = append(back, e.RTT)
		}
	}
	slices.Sort(back)
	return back
}

// quantile returns a percentile of a sorted list; 0 if it is empty.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
