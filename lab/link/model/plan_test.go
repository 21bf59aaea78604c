// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/lab/link"
	"weir/lab/link/loss"
)

// A slow oracle: it counts octets in steps of a microsecond.
func slowFinish(d link.Direction, origin, start, octets float64) float64 {
	const tick = 1000.0
	t := start
	for passed := 0.0; ; t += tick {
		at := math.Mod(t-origin, float64(d.Cycle()))
		for _, s := range d.Schedule {
			if at -= float64(s.For); at < 0 {
				passed += s.BitsPerSecond / 8e9 * tick
				break
			}
		}
		if passed >= octets {
			return t + tick
		}
	}
}

func TestAPlanLetsPassWhatItsStepsDo(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for n := range 200 {
		d := link.Direction{Rate: 1e6}
		for range 1 + random.IntN(5) {
			rate := float64(random.IntN(3)) * 4e6 * random.Float64()
			d.Schedule = append(d.Schedule, link.Step{For: time.Duration(1+random.IntN(20)) * time.Millisecond, BitsPerSecond: rate})
		}
		d.Schedule = append(d.Schedule, link.Step{For: 5 * time.Millisecond, BitsPerSecond: 2e6})
		p := newPlan(d)
		p.origin = 1e6
		start, octets := 1e6+random.Float64()*1e8, 50+random.Float64()*20000
		got, want := p.finish(start, octets), slowFinish(d, p.origin, start, octets)
		if math.Abs(got-want) > 3000*float64(len(d.Schedule)) {
			t.Fatalf("%d: %v bytes from %v on of %+v: %v, the oracle says %v", n, octets, start, d.Schedule, got, want)
		}
	}
}

func TestAScheduleBeginsWithTheTraffic(t *testing.T) {
	ms := int64(time.Millisecond)
	d := link.Direction{Rate: 8e6, Delay: time.Millisecond, Queue: link.Queue{Packets: 1000}, Schedule: []link.Step{
		{For: 10 * time.Millisecond, BitsPerSecond: 8e6, Delay: 2 * time.Millisecond},
		{For: 10 * time.Millisecond, BitsPerSecond: 0, Delay: 2 * time.Millisecond},
		{For: 10 * time.Millisecond, BitsPerSecond: 4e6, Delay: 5 * time.Millisecond, Loss: loss.Of(loss.EveryNth{Nth: 2})},
	}}
	l := New(d, 1000)
	const length = 1000 - link.FrameOverhead // a ms at 8 Mbit/s
	if got := l.Decide(0, length).At; got != 2*ms {
		t.Errorf("before its schedule a frame leaves at %d", got)
	}
	l.Begin(100 * ms)
	want := []Decision{}
	for range 10 { // at 8 Mbit/s
		want = append(want, Decision{At: 100*ms + int64(len(want)+1)*ms + 2*ms})
	}
	for range 4 { // nothing for 10 ms, then half the rate, and every second one is lost
		n := int64(len(want) - 10)
		want = append(want, Decision{At: 120*ms + 2*(n+1)*ms + 5*ms})
	}
	for i, w := range want {
		got := l.Decide(100*ms, length)
		if i > 10 && i%2 == 1 {
			w = Decision{Fate: LossDrop}
		}
		if got.Fate != w.Fate || got.Fate == Pass && math.Abs(float64(got.At-w.At)) > 2 {
			t.Errorf("frame %d: %+v, want %+v", i, got, w)
		}
	}
}
