// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/kernel/testutil"
)

// disturb applies loss, copies and reordering to n consecutive frames.
func disturb(r *rand.Rand, n int, loss, copies, swaps float64, reach int) []uint64 {
	type slot struct {
		sequence uint64
		place    int
	}
	var slots []slot
	for s := range n {
		place := s * 2
		if r.Float64() < swaps {
			place += 2*r.IntN(reach+1) + 1
		}
		if r.Float64() >= loss {
			slots = append(slots, slot{uint64(s), place})
		}
		for r.Float64() < copies {
			slots = append(slots, slot{uint64(s), place + 2*r.IntN(reach+1)})
		}
	}
	byPlace := make(map[int][]uint64)
	top := 0
	for _, s := range slots {
		byPlace[s.place] = append(byPlace[s.place], s.sequence)
		top = max(top, s.place)
	}
	var out []uint64
	for place := 0; place <= top; place++ {
		out = append(out, byPlace[place]...)
	}
	return out
}

func TestRandomAgainstOracle(t *testing.T) {
	r := testutil.Rand(t)
	tests := []struct {
		frames              int
		loss, copies, swaps float64
		reach               int
		stride              uint64 // factor by which the sequence numbers are spread
	}{
		{300, 0.01, 0.01, 0.01, 3, 1},
		{300, 0.3, 0.3, 0.3, 20, 1},
		{300, 0, 0, 1, 250, 1},
		{400, 0.05, 0.1, 0.2, 300, 67},  // wider than the window
		{400, 0.05, 0.1, 0.2, 10, 4000}, // jumps of half a window
		{200, 0.5, 0.5, 0.5, 5, 20000},  // jumps of more than a window
	}
	for i, test := range tests {
		for _, parallel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d parallel %t", i, parallel), func(t *testing.T) {
				b := newBench(t, Options{Streams: []uint16{3, 9, 4000}, Capture: parallel}, parallel)
				six, slot := r.IntN(2) == 1, r.IntN(3)
				id := []uint16{3, 9, 4000}[slot]
				template := build(t, stream(id, six, 0), 90+r.IntN(400))
				sequences := disturb(r, test.frames, test.loss, test.copies, test.swaps, test.reach)
				if test.stride > 1 {
					for i, s := range sequences {
						sequences[i] = s*test.stride + mixed(s)%test.stride
					}
				}
				broken := map[int]bool{}
				for range len(sequences) / 50 {
					broken[r.IntN(len(sequences))] = true
				}
				arrivals := b.play(template, slot, sequences, 1+r.Uint64N(1000), func(i int) bool { return broken[i] })
				want := oracle(arrivals)
				want.Stream = id
				compare(t, want, b.counts(slot))
			})
		}
	}
}

// mixed scatters s; copies of one frame keep one number.
func mixed(s uint64) uint64 { return s * 0x9e3779b97f4a7c15 >> 20 }

// TestStreamsApart mixes many streams and compares each with the oracle's result for it alone.
func TestStreamsApart(t *testing.T) {
	r := testutil.Rand(t)
	const streams = 40
	var ids []uint16
	for i := range streams {
		ids = append(ids, uint16(i*100))
	}
	b := newBench(t, Options{Streams: ids}, false)
	arrivals := make([][]arrival, streams)
	lists := make([][]uint64, streams)
	for i := range lists {
		lists[i] = disturb(r, 30, 0.1, 0.1, 0.1, 5)
	}
	for left := streams; left > 0; {
		i := r.IntN(streams)
		if len(lists[i]) == 0 {
			continue
		}
		template := build(t, stream(ids[i], i%2 == 1, 0), 100)
		arrivals[i] = append(arrivals[i], b.play(template, i, lists[i][:1], 1, nil)...)
		if lists[i] = lists[i][1:]; len(lists[i]) == 0 {
			left--
		}
	}
	for i := range streams {
		want := oracle(arrivals[i])
		want.Stream = ids[i]
		compare(t, want, b.counts(i))
	}
}
