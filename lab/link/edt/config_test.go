// SPDX-License-Identifier: Apache-2.0

package edt

import (
	"math"
	"math/bits"
	"testing"
	"time"

	"weir/internal/units"
	"weir/lab/link"
	"weir/lab/link/loss"
)

// TestShapesHaveTheirMoments integrates each table as the program reads it, straight lines between
// quantiles. Uniform has variance 1/3 over ±1. A Pareto variable of shape 3 and scale 1 that is cut
// at c has the mean 3/2 - 1/(2c²) and the mean square 3 - 2/c; c is 4 deviations above 3/2, and the
// variance without the cut is 3/4.
func TestShapesHaveTheirMoments(t *testing.T) {
	sigma := math.Sqrt(0.75)
	c := 1.5 + 4*sigma
	cut := 1.5 - 1/(2*c*c)
	for shape, want := range map[link.JitterShape]struct{ mean, deviation float64 }{
		link.Uniform: {0, 1 / math.Sqrt(3)}, link.Normal: {0, 1},
		link.Pareto: {(cut - 1.5) / sigma, math.Sqrt(3-2/c-cut*cut) / sigma},
	} {
		table := shapeOf(shape)
		var mean, square float64
		steps := len(table) - 1
		for i := range steps {
			a, b := table[i], table[i+1]
			if b < a {
				t.Fatalf("%s: quantile %d is above the next", shape, i)
			}
			mean += (a + b) / 2
			square += (a*a + a*b + b*b) / 3
		}
		mean /= float64(steps)
		got := math.Sqrt(square/float64(steps) - mean*mean)
		if math.Abs(mean-want.mean) > 0.001 || math.Abs(got-want.deviation) > 0.003 {
			t.Errorf("%s: mean %.4f, standard deviation %.4f, want %.4f and %.4f", shape, mean, got, want.mean, want.deviation)
		}
	}
}

func shapeOf(s link.JitterShape) (values []float64) {
	for _, q := range shape(s).Quantile {
		values = append(values, float64(q)/(1<<quantileShift))
	}
	return values
}

func TestConfiguration(t *testing.T) {
	d := link.Direction{Rate: 1e9, Delay: 10 * time.Millisecond, KeepOrder: true, Corrupt: 1, Duplicate: 0.25,
		Loss: loss.Of(loss.Gilbert{P: 0.5, R: 0.25, H: 0, K: 0.75}), Queue: link.Queue{Packets: 100, ECN: 3000}}
	want := wayEdtConfig{OctetTime: 8 << timeShift, DelayNs: 1e7, LimitPackets: 100, MarkOctets: 3000,
		ToBad: always / 2, ToGood: always / 4, LostGood: always / 4, LostBad: always, Duplicate: always / 4, Corrupt: always,
		Overhead: 24, KeepOrder: 1, Target: 7, RingMask: 127}
	if got := configure(d, 7); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestRingsHoldWhatMayWait for queues of all kinds: a power of two that is no smaller than the
// limit in frames of the least size, unless that is more than a ring may have.
func TestRingsHoldWhatMayWait(t *testing.T) {
	for _, test := range []struct {
		queue link.Queue
		rate  units.BitRate
		least int
	}{
		{link.Queue{Packets: 1}, 1e6, 1}, {link.Queue{Packets: 1000}, 1e6, 1000}, {link.Queue{Packets: 1 << 30}, 1e6, maxRing},
		{link.Queue{Bytes: 60000}, 1e9, 1000}, {link.Queue{Bytes: 1 << 40}, 1e9, maxRing}, {link.Queue{}, 1e6, 2083}, {link.Queue{}, 0, 1},
	} {
		got := ring(link.Direction{Rate: test.rate, Queue: test.queue})
		if bits.OnesCount(uint(got)) != 1 || got < test.least || got > maxRing {
			t.Errorf("a ring of %d for %+v at %s, want a power of two from %d on", got, test.queue, test.rate, test.least)
		}
	}
}
