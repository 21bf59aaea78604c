// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"
)

func TestEdgesSinceAnEarlierReading(t *testing.T) {
	flow := func(port uint16, first, highest, packets, reordered, restarts uint64, delay int64) Edge {
		return edgeOf(ioamIoamEdgeKey{SourcePort: port}, ioamIoamEdgeReceived{First: first, Highest: highest, Packets: packets, Reordered: reordered,
			Restarts: restarts, Stamped: packets, Delay: delay})
	}
	before := []Edge{flow(1, 0, 99, 90, 3, 0, 900), flow(2, 0, 9, 10, 0, 0, 0), flow(3, 0, 9, 10, 0, 0, 10), flow(5, 0, 9, 8, 0, 0, 8)}
	now := []Edge{
		flow(1, 0, 149, 135, 4, 0, 900+45*20), // 50 more numbers, 45 of them received
		flow(2, 0, 9, 10, 0, 0, 0),            // unchanged
		flow(3, 50, 59, 5, 0, 1, 5),           // restarted
		flow(4, 0, 3, 4, 0, 0, 4),             // new
		flow(5, 0, 9, 10, 2, 0, 10),           // two late packets
	}
	since := EdgesSince(before, now)
	got := make([][5]int64, 0, len(since))
	for _, e := range since {
		got = append(got, [5]int64{int64(e.Flow.SourcePort), int64(e.Packets), int64(e.Lost), int64(e.Reordered), e.Mean})
	}
	want := [][5]int64{{1, 45, 5, 1, 20}, {3, 5, 5, 0, 1}, {4, 4, 0, 0, 1}, {5, 2, 0, 2, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("flow, packets, lost, reordered, mean delay: %v, want %v", got, want)
	}
}
