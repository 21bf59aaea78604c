// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"math"
	"slices"
	"time"

	"weir/core/prove/station"
)

// train is the result of one train.
type train struct {
	rate   float64 // actual rate of payload in bit/s
	above  bool    // the path does not carry it
	queued time.Duration
}

// Thresholds for growing delays: the share of increases between a train's group medians (pairwise
// comparison test), and their net growth relative to the total variation (pairwise difference
// test), from the paper.
const (
	growing    = .66
	notGrowing = .54
	farther    = .55
	notFarther = .45
	minGroups  = 4
)

// minGrowth is the minimum growth of delays relative to a train's duration, so that microseconds
// of noise are no trend. maxLost is the maximum share of lost datagrams.
const (
	minGrowth = .01
	maxLost   = .05
	minSpread = .9 // of the sent rate on arrival
)

// judge evaluates the arrivals of a train; false if too few arrived.
func judge(sent int, came []station.Arrival) (t train, ok bool) {
	if len(came) < 2 {
		return t, false
	}
	slices.SortFunc(came, func(a, b station.Arrival) int { return int(a.Number) - int(b.Number) })
	first, last := came[0], came[len(came)-1]
	took, arrived := float64(last.Sent-first.Sent), float64(last.Came-first.Came)
	if took <= 0 {
		return t, false
	}
	bits := float64(last.Number-first.Number) * station.Payload * 8
	t.rate = bits / took * 1e9
	delays := make([]float64, len(came))
	least := math.Inf(1)
	for i, a := range came {
		delays[i] = float64(a.Came - a.Sent)
		least = min(least, delays[i])
	}
	t.queued = time.Duration(slices.Max(delays) - least)
	lost := 1 - float64(len(came))/float64(sent)
	t.above = lost > maxLost || arrived > 0 && took/arrived < minSpread || grows(delays, took)
	return t, true
}

// grows reports whether delays have an upward trend over a train of this duration.
func grows(delays []float64, took float64) bool {
	medians := groups(delays)
	if len(medians) < minGroups {
		return false
	}
	up, moved := 0., 0.
	for i := 1; i < len(medians); i++ {
		if medians[i] > medians[i-1] {
			up++
		}
		moved += math.Abs(medians[i] - medians[i-1])
	}
	growth := medians[len(medians)-1] - medians[0]
	if growth < max(minGrowth*took, took/float64(2*len(delays))) || moved == 0 {
		return false
	}
	share, way := up/float64(len(medians)-1), growth/moved
	return share > growing && way >= notFarther || way > farther && share >= notGrowing
}

// groups returns the medians of consecutive groups, about the square root of the number of delays.
func groups(delays []float64) (medians []float64) {
	size := max(int(math.Sqrt(float64(len(delays)))), 1)
	for group := range slices.Chunk(delays, size) {
		if len(group) < size {
			break // too small for a median
		}
		sorted := slices.Sorted(slices.Values(group))
		medians = append(medians, sorted[len(sorted)/2])
	}
	return medians
}
