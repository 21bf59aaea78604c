// SPDX-License-Identifier: Apache-2.0

package fidelity

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/lab/link"
	"weir/lab/link/loss"
	"weir/lab/link/model"
	"weir/record/hist"
)

func TestParseCPUs(t *testing.T) {
	const before = "cpu  100 0 0 0\ncpu0 10 1 5 80 4 0 0 0 3 3\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 7\n"
	const after = "cpu  9 9 9 9\ncpu0 30 1 5 100 14 0 0 50 9 9\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 9\n"
	first, err := parseCPUs(strings.NewReader(before))
	if err != nil || len(first) != 2 {
		t.Fatalf("%v, %v", first, err)
	}
	second, err := parseCPUs(strings.NewReader(after))
	if err != nil {
		t.Fatal(err)
	}
	busy, steal := utilization(first, second)
	if len(busy) != 1 || busy[0] != 0.7 || steal != 0.5 {
		t.Errorf("busy %v, stolen %v; want [0.7] and 0.5", busy, steal)
	}
	if _, err := parseCPUs(strings.NewReader("cpu0 1 2 x 4 5\n")); err == nil {
		t.Error("a line that is no line was accepted")
	}
}

// The loss bounds are wide enough for the model itself, and too narrow for another loss.
func TestLossBoundsAgainstTheModel(t *testing.T) {
	for _, asked := range []loss.Loss{
		{},
		loss.Of(loss.Independent{Probability: 0.01}),
		loss.Of(loss.Independent{Probability: 1}),
		loss.Of(loss.EveryNth{Nth: 13}),
		loss.Of(loss.Gilbert{P: 0.01, R: 0.2, K: 1}),
		loss.Of(loss.Gilbert{P: 0.3, R: 0.9, K: 0.99, H: 0.5}),
	} {
		const frames, runs = 4000, 200
		low, high := lossBounds(asked, frames)
		outside := 0
		for seed := range uint64(runs) {
			l := model.New(link.Direction{Loss: asked, Seed: seed}, 2)
			lost := 0.0
			for i := range int64(frames) {
				if l.Decide(i, 100).Fate == model.LossDrop {
					lost++
				}
			}
			if share := lost / frames; share < low || share > high {
				outside++
			}
		}
		if outside > 0 { // 4 sigma: one run in 16,000
			t.Errorf("%+v: %d of %d runs lie outside %v to %v", asked, outside, runs, low, high)
		}
		if other := math.Min(0.9, asked.Share()*2+0.01); asked.Share() < 0.5 && other < high && asked.Model != (loss.Gilbert{}).Name() {
			t.Errorf("%+v: a loss of %v would pass too (%v to %v)", asked, other, low, high)
		}
	}
}

func TestDifferenceOfHistograms(t *testing.T) {
	var before, after, want hist.Histogram
	for v := range uint64(1000) {
		before.Record(v)
		after.Record(v)
	}
	for v := range uint64(500) {
		after.Record(v * 100)
		want.Record(v * 100)
	}
	got := difference(&after, &before)
	if got.Count() != want.Count() || got.Sum() != want.Sum() || got.Quantile(0.5) != want.Quantile(0.5) {
		t.Errorf("count %d sum %d median %d, want %d %d %d", got.Count(), got.Sum(), got.Quantile(0.5), want.Count(), want.Sum(), want.Quantile(0.5))
	}
}

// A train over a link of 8 Mbit/s: 1 µs per byte. A pause in the middle does not change the rate.
func TestTrainRateIgnoresAPause(t *testing.T) {
	const length = 976 // 1 ms on the wire
	train := make([]probe, 160)
	now := time.Duration(0)
	for i := range train {
		if now += time.Millisecond; i == 75 {
			now += time.Second
		}
		if i%10 != 3 { // some are lost
			train[i] = probe{sent: 1, arrived: now}
		}
	}
	if rate := trainRate(train, length, false); rate != 8e6 {
		t.Errorf("the rate is %s", rate)
	}
	if rate := trainRate(train, length, true); rate > 2e6 {
		t.Errorf("the rate of the whole train is %s", rate)
	}
	if rate := trainRate(make([]probe, 100), length, false); rate != 0 {
		t.Errorf("nothing arrived at %s", rate)
	}
}

func FuzzParse(f *testing.F) {
	p := prober{frame: make([]byte, 1<<14)}
	f.Add(append([]byte(nil), p.build(60)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if number, sent, ok := parse(frame); !ok && (number != 0 || sent != 0) {
			t.Error("a damaged frame has a number")
		}
	})
}

// Slow start at first, then 8 Mbit/s: a mean from the start would be lower.
func TestBestRateIsPastSlowStart(t *testing.T) {
	var all []arrival
	octets := 0
	for i := range 200 {
		if i < 100 {
			octets += 10 * i
		} else {
			octets += 1000
		}
		all = append(all, arrival{time.Duration(i) * time.Millisecond, octets})
	}
	if got := bestRate(all, 50*time.Millisecond); got < 7.9e6 || got > 8.1e6 {
		t.Errorf("%v bit/s", got)
	}
	if got := bestRate(all[:3], time.Second); got <= 0 {
		t.Errorf("%v bit/s of a short transfer", got)
	}
	if bestRate(nil, time.Second) != 0 {
		t.Error("nothing has a rate")
	}
}
