// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"math"
	"slices"
	"time"

	"weir/core/prove/station"
)

// train is what has become of one train.
type train struct {
	rate   float64 // payload, bit/s, as it was sent
	above  bool    // the path does not carry it
	queued time.Duration
}

// Bounds of what says that delays grow: of a train's group medians the share that grows (pairwise
// comparison test) and how far they get of all that they move (pairwise difference test), the
// paper's.
const (
	growing     = .66
	notGrowing  = .54
	farther     = .55
	notFarther  = .45
	leastGroups = 4
)

// leastGrowth is the part of a train's time that delays must grow by, so that noise of microseconds
// is no trend, and mostLost the share of a train that may be lost.
const (
	leastGrowth = .01
	mostLost    = .05
	leastSpread = .9 // of the rate at which it was sent, that it arrives with
)

// judge looks at a train of which so many datagrams were sent; false where too little came.
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
	t.above = lost > mostLost || arrived > 0 && took/arrived < leastSpread || grows(delays, took)
	return t, true
}

// grows says whether delays have a trend upwards over a train that took so long.
func grows(delays []float64, took float64) bool {
	medians := groups(delays)
	if len(medians) < leastGroups {
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
	if growth < max(leastGrowth*took, took/float64(2*len(delays))) || moved == 0 {
		return false
	}
	share, way := up/float64(len(medians)-1), growth/moved
	return share > growing && way >= notFarther || way > farther && share >= notGrowing
}

// groups are the medians of about the square root of so many groups in turn.
func groups(delays []float64) (medians []float64) {
	size := max(int(math.Sqrt(float64(len(delays)))), 1)
	for group := range slices.Chunk(delays, size) {
		if len(group) < size {
			break // a small one says little
		}
		sorted := slices.Sorted(slices.Values(group))
		medians = append(medians, sorted[len(sorted)/2])
	}
	return medians
}
