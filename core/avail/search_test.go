// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"weir/core/prove/station"
	"weir/kernel/testutil"
)

// fluid is a FIFO bottleneck with cross traffic in packets at random times. The delays of a train's
// datagrams are computed exactly.
type fluid struct {
	random          *rand.Rand
	capacity, cross float64 // bit/s
	packet          float64 // bits per packet of cross traffic
	slow            float64 // maximum rate of this host; 0 is no limit
	trains          int
	most            float64 // maximum delay in seconds
}

const bits = station.Payload * 8

func (f *fluid) train(_ context.Context, rate float64, datagrams int) (train, error) {
	f.trains++
	if f.slow > 0 {
		rate = min(rate, f.slow)
	}
	work, now, next := 0., 0., f.random.ExpFloat64()*f.packet/f.cross
	var came []station.Arrival
	for n := range datagrams {
		at := float64(n) * bits / rate
		for next < at {
			work = max(work-(next-now)*f.capacity, 0) + f.packet
			now, next = next, next+f.random.ExpFloat64()*f.packet/f.cross
		}
		work = max(work-(at-now)*f.capacity, 0) + bits
		now = at
		waited := work / f.capacity
		f.most = max(f.most, waited)
		jitter := 20e-6 * f.random.Float64() // of a busy host
		came = append(came, station.Arrival{Number: uint32(n), Sent: int64(at * 1e9), Came: int64((at + waited + jitter + .01) * 1e9)})
	}
	t, ok := judge(datagrams, came)
	if !ok {
		return t, errNothing
	}
	return t, nil
}

// The search brackets the unused rate of any capacity, and keeps the queue short.
func TestTheSearchFindsWhatIsFree(t *testing.T) {
	random := testutil.Rand(t)
	for _, capacity := range []float64{2e6, 20e6, 100e6, 900e6} {
		for _, share := range []float64{.01, .3, .6, .9} {
			f := &fluid{random: random, capacity: capacity, cross: share * capacity, packet: 8 * 1000}
			free, sum := capacity*(1-share), 0.
			const searches = 15 // of 600 seeds, none fails with 15 searches; with 5 searches, 4 fail
			for range searches {
				b, err := search(t.Context(), f, firstRate, 10e9)
				if err != nil {
					t.Fatal(err)
				}
				sum += b.estimate()
			}
			if got := sum / searches; math.Abs(got-free) > .2*free+.04*capacity {
				t.Errorf("%.0f Mbit/s with %.0f %% taken: %.2f Mbit/s free, want %.2f", capacity/1e6, 100*share, got/1e6, free/1e6)
			} else {
				t.Logf("%.0f Mbit/s with %.0f %% taken: %.2f Mbit/s free, found %.2f in %d trains, %.1f ms waited at most", capacity/1e6, 100*share, free/1e6, got/1e6, f.trains, f.most*1e3)
			}
		}
	}
}

// The result reports a search that ended at the host's maximum rate or at the highest tested rate.
func TestWhereASearchEndsIsTold(t *testing.T) {
	random := testutil.Rand(t)
	b, err := search(t.Context(), &fluid{random: random, capacity: 1e9, cross: 1e6, packet: 8000, slow: 50e6}, firstRate, 10e9)
	if err != nil || !b.slow || b.estimate() < 30e6 || b.estimate() > 51e6 {
		t.Errorf("of a slow host: %+v, %v", b, err)
	}
	b, err = search(t.Context(), &fluid{random: random, capacity: 1e9, cross: 1e6, packet: 8000}, firstRate, 20e6)
	if err != nil || b.slow || b.high != 0 || b.low < 19e6 {
		t.Errorf("up to 20 Mbit/s: %+v, %v", b, err)
	}
}

func TestATrainsDelaysAreJudged(t *testing.T) {
	line := func(n int, slope float64, noise ...float64) (all []float64) {
		for i := range n {
			all = append(all, 1e6+slope*float64(i)+noise[i%len(noise)])
		}
		return all
	}
	for _, test := range []struct {
		name   string
		delays []float64
		took   float64
		want   bool
	}{
		{"flat", line(60, 0, 0, 300, -300, 100), 30e6, false},
		{"rising", line(60, 50e3, 0, 300, -300, 100), 30e6, true},
		{"rising by microseconds", line(60, 100, 0), 30e6, false},
		{"falling", line(60, -50e3, 0), 30e6, false},
		{"one datagram late", append(line(59, 0, 0), 9e9), 30e6, false},
		{"few", line(9, 1e6, 0), 9e6, false},
	} {
		if got := grows(test.delays, test.took); got != test.want {
			t.Errorf("%s: grows %t", test.name, got)
		}
	}
	if got, ok := judge(40, nil); ok {
		t.Errorf("nothing came: %+v, %t", got, ok)
	}
	var came []station.Arrival
	for i := range 30 {
		came = append(came, station.Arrival{Number: uint32(i), Sent: int64(i) * 1e6, Came: int64(i) * 1e6})
	}
	if got, ok := judge(40, came); !ok || !got.above {
		t.Errorf("a quarter lost: %+v, %t", got, ok)
	}
	if got, ok := judge(30, came); !ok || got.above || got.rate != 1e3*bits {
		t.Errorf("as it was sent: %+v, %t", got, ok)
	}
}
