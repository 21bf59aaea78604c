// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/units"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/model"
)

// oracle is the slow, obvious link: a list of waiting frames and a wire, moved on event by event.
// It counts whole nanoseconds, so its rates need a whole number of ns per byte.
type oracle struct {
	direction link.Direction
	octet     int64 // ns
	queue     []*waiting
	busyUntil int64
}

type waiting struct {
	length int
	left   int64 // end of serialization; 0 while it waits
}

func (o *oracle) start(f *waiting, at int64) {
	o.busyUntil = at + int64(f.length+link.FrameOverhead)*o.octet
	f.left = o.busyUntil
}

func (o *oracle) waitingOctets() (sum int) {
	for _, f := range o.queue {
		sum += f.length
	}
	return sum
}

// arrive returns the frame, with its departure set once it has left, or nil if it was dropped.
func (o *oracle) arrive(now int64, length int) (f *waiting, marked bool) {
	for len(o.queue) > 0 && o.busyUntil <= now {
		o.start(o.queue[0], o.busyUntil)
		o.queue = o.queue[1:]
	}
	f = &waiting{length: length}
	if o.busyUntil <= now {
		o.start(f, now)
		return f, false
	}
	limit := o.direction.Queue
	if limit.Bytes > 0 && o.waitingOctets()+length > int(limit.Bytes) || limit.Packets > 0 && len(o.queue)+1 > limit.Packets {
		return nil, false
	}
	marked = limit.ECN > 0 && o.waitingOctets() > int(limit.ECN)
	o.queue = append(o.queue, f)
	return f, marked
}

func (o *oracle) finish() {
	for _, f := range o.queue {
		o.start(f, o.busyUntil)
	}
}

func TestQueueAgainstOracle(t *testing.T) {
	random := testutil.Rand(t)
	for round := range 200 {
		octet := []int64{1, 2, 8, 80, 1000}[random.IntN(5)]
		d := link.Direction{
			Rate:  units.BitRate(8e9 / octet),
			Delay: time.Duration(random.IntN(3)) * time.Millisecond,
			Queue: link.Queue{
				Bytes:   units.ByteSize(random.IntN(2) * random.IntN(50000)),
				Packets: random.IntN(2) * random.IntN(60),
				ECN:     units.ByteSize(random.IntN(2) * random.IntN(20000)),
			},
		}
		compareWithOracle(t, random, d, octet)
		if t.Failed() {
			t.Fatalf("round %d: %+v", round, d)
		}
	}
}

func compareWithOracle(t *testing.T, random *rand.Rand, d link.Direction, octet int64) {
	t.Helper()
	l, o := model.New(d, 1<<12), &oracle{direction: d, octet: octet}
	load := 0.5 + 1.5*random.Float64() // of the rate
	now := int64(1e12)
	type pair struct {
		fast model.Decision
		slow *waiting
	}
	var pairs []pair
	for i := range 1000 {
		length := 60 + random.IntN(1455)
		now += int64(random.ExpFloat64() * 800 * float64(octet) / load)
		fast := l.Decide(now, length)
		slow, marked := o.arrive(now, length)
		if (fast.Fate == model.QueueDrop) != (slow == nil) || fast.Mark != marked {
			t.Errorf("frame %d: fate %d mark %v, the oracle says dropped %v marked %v", i, fast.Fate, fast.Mark, slow == nil, marked)
			return
		}
		if slow != nil {
			pairs = append(pairs, pair{fast, slow})
		}
	}
	o.finish()
	for i, p := range pairs {
		if want := p.slow.left + int64(d.Delay); p.fast.At != want {
			t.Errorf("accepted frame %d leaves at %d, the oracle says %d", i, p.fast.At, want)
			return
		}
	}
}
