// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"slices"
	"time"

	"weir/core/prove/station"
)

// Disturbance is what the measurement did to the path: round trips of small packets of best effort
// between its trains and beside them.
type Disturbance struct {
	Octets uint64  `json:"octets"` // that were sent, of the wire
	Load   float64 `json:"load"`   // of them, in bit/s over the whole time
	Idle   Trips   `json:"between_trains"`
	Beside Trips   `json:"beside_trains"`
	// Own is how much longer than the first a datagram of a train took at most.
	Own time.Duration `json:"own_queue_ns"`
}

// Trips are round trips of small packets.
type Trips struct {
	Sent int           `json:"sent"`
	Lost int           `json:"lost"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
}

// AddedP50 and AddedP99 are how much longer round trips were beside trains.
func (d Disturbance) AddedP50() time.Duration { return d.Beside.P50 - d.Idle.P50 }

// AddedP99 is of the 99th percentile.
func (d Disturbance) AddedP99() time.Duration { return d.Beside.P99 - d.Idle.P99 }

// disturbance tells small packets beside trains from those between.
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

// trips are the round trips of those that are back; which of nil is all.
func trips(all []station.Echo, which func(station.Echo) bool) (back []time.Duration) {
	for _, e := range all {
		if e.RTT > 0 && (which == nil || which(e)) {
			back = append(back, e.RTT)
		}
	}
	slices.Sort(back)
	return back
}

// quantile is the value that so many of a hundred do not pass, of a sorted list; 0 of none.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
