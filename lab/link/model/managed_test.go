// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/lab/link"
)

const (
	mbit   = 1e6
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	// serial is the serialization time of maxFrame bytes at 10 Mbit/s.
	serial = int64((maxFrame + link.FrameOverhead) * 8 * 100)
)

func managed(q link.Queue) *Managed {
	return New(link.Direction{Rate: 10 * mbit, Queue: q, Seed: 1}, 20000).Manage(20000)
}

// load offers frames of some flows to a queue and records the fate of each.
type load struct {
	m       *Managed
	sent    []sent // by slot
	waiting map[int]bool
	out     []left
	refused int
	turn    int64
	t       *testing.T
}

type sent struct {
	flow uint32
	at   int64
}

type left struct {
	sent
	Decision
	taken int64 // time of its dequeue
}

func newLoad(t *testing.T, m *Managed) *load {
	return &load{m: m, sent: make([]sent, m.Slots()), waiting: map[int]bool{}, t: t}
}

func (l *load) offer(now int64, flow uint32, ecn bool) {
	l.take(now)
	slot, _, ok := l.m.Offer(now, Frame{Length: maxFrame, Flow: flow, ECN: ecn})
	if !ok {
		l.refused++
		return
	}
	if l.waiting[slot] {
		l.t.Fatalf("slot %d is given twice", slot)
	}
	l.waiting[slot], l.sent[slot] = true, sent{flow, now}
	l.take(now)
}

func (l *load) take(now int64) {
	for {
		if next := l.m.Next(); next > math.MinInt64 { // otherwise Take returned a drop of the step before
			l.turn = next
		}
		slot, d, ok := l.m.Take(now)
		if !ok {
			return
		}
		if !l.waiting[slot] {
			l.t.Fatalf("slot %d comes back and does not wait", slot)
		}
		delete(l.waiting, slot)
		l.out = append(l.out, left{l.sent[slot], d, l.turn})
	}
}

// finish dequeues the rest, and checks that every frame came back.
func (l *load) finish(offered int) {
	l.t.Helper()
	l.take(math.MaxInt64 / 2)
	if len(l.waiting) != 0 || len(l.out)+l.refused != offered || l.m.Waiting() != 0 || l.m.Backlog() != 0 {
		l.t.Errorf("of %d frames %d came out, %d were refused, %d wait (%d bytes)", offered, len(l.out), l.refused, l.m.Waiting(), l.m.Backlog())
	}
	var last int64
	for _, f := range l.out {
		if f.Fate == Pass {
			if f.At < last+serial-1 {
				l.t.Fatalf("frames leave at %d and %d, closer than the wire allows", last, f.At)
			}
			last = f.At
		}
	}
}

func TestAnIdleWireDelaysNothing(t *testing.T) {
	for _, discipline := range link.Disciplines() {
		m := managed(link.Queue{Discipline: discipline})
		l := newLoad(t, m)
		for i := range int64(1000) {
			l.offer(i*2*serial, 1, false)
		}
		l.finish(1000)
		for i, f := range l.out {
			if f.Fate != Pass || f.At != int64(i)*2*serial+serial {
				t.Fatalf("%s: frame %d: %+v", discipline, i, f)
			}
		}
	}
	if New(link.Direction{Rate: mbit}, 10).Manage(10) != nil || New(link.Direction{Queue: link.Queue{Discipline: link.CoDel}}, 10).Manage(10) != nil {
		t.Error("a queue that drops at the tail, or none, is managed")
	}
}

// An unresponsive overload: CoDel's first drop comes an interval after the delay passed the target,
// and the n-th an interval / sqrt(n) later, exact to one frame time.
func TestCoDelDropsByItsLaw(t *testing.T) {
	m := managed(link.Queue{Discipline: link.CoDel, Packets: 10000})
	l := newLoad(t, m)
	n := 0
	for at := int64(0); at < 2*second; at += serial / 2 {
		l.offer(at, 1, false)
		n++
	}
	var drops []int64
	above := int64(-1)
	for _, f := range l.out {
		if above < 0 && f.taken-f.at >= 5*ms {
			above = f.taken
		}
		if f.Fate == QueueDrop {
			drops = append(drops, f.taken)
		}
	}
	l.finish(n)
	if len(drops) < 30 {
		t.Fatalf("%d drops in 2 s", len(drops))
	}
	due := float64(above) + 1e8
	for i, at := range drops[:30] {
		if late := float64(at) - due; late < -float64(serial) || late > 2*float64(serial) {
			t.Errorf("drop %d at %d, due at %.0f", i+1, at, due)
		}
		if i == 0 {
			due = float64(at)
		}
		due += 1e8 / math.Sqrt(float64(i+1))
	}
}

func TestCoDelMarksInPlaceOfDropping(t *testing.T) {
	m := managed(link.Queue{Discipline: link.CoDel, Packets: 10000, Mark: true})
	l := newLoad(t, m)
	n, marked := 0, 0
	for at := int64(0); at < second; at += serial / 2 {
		l.offer(at, 1, n%2 == 0)
		n++
	}
	dropped := 0
	for _, f := range l.out {
		if f.Mark {
			marked++
		}
		if f.Fate == QueueDrop {
			dropped++
		}
	}
	l.finish(n)
	if marked < 5 || dropped < 5 {
		t.Errorf("%d marked and %d dropped, where every other frame can be marked", marked, dropped)
	}
}

// A sparse flow waits for a frame or two at any load of another flow, and two greedy flows get
// equal shares.
func TestFQCoDelSharesByFlow(t *testing.T) {
	m := managed(link.Queue{Discipline: link.FQCoDel, Packets: 200})
	l := newLoad(t, m)
	n := 0
	for step := range int64(8000) {
		at := step * serial / 4
		l.offer(at, 1, false) // four times the link's rate
		n++
		if step%2 == 0 {
			l.offer(at, 2, false) // twice the link's rate
			n++
		}
		if step%100 == 50 {
			l.offer(at, 3, false) // sparse
			n++
		}
	}
	passed := map[uint32]int{}
	var longest int64
	for _, f := range l.out {
		switch {
		case f.Fate == Pass:
			passed[f.flow]++
			if f.flow == 3 {
				longest = max(longest, f.At-f.at)
			}
		case f.flow == 3:
			t.Error("a frame of a sparse flow was dropped")
		}
	}
	l.finish(n)
	if d := passed[1] - passed[2]; d < -10 || d > 10 || passed[1] < 900 {
		t.Errorf("two greedy flows got %d and %d frames", passed[1], passed[2])
	}
	if longest > 4*serial {
		t.Errorf("a sparse flow waited for %s", time.Duration(longest))
	}
}

// PIE keeps the delay near its target under an overload of 50 %, by dropping a third.
func TestPIEHoldsItsTarget(t *testing.T) {
	m := managed(link.Queue{Discipline: link.PIE, Packets: 10000})
	l := newLoad(t, m)
	random := rand.New(rand.NewPCG(7, 7))
	n, dropped := 0, 0
	var sum, count float64
	for at := int64(0); at < 120*second; at += int64(random.ExpFloat64() * float64(serial) * 2 / 3) {
		before := l.refused
		l.offer(at, 1, false)
		n++
		if at > 60*second {
			count++
			sum += float64(l.m.delay())
			dropped += l.refused - before
		}
	}
	l.finish(n)
	if mean := time.Duration(sum / count); mean < 5*time.Millisecond || mean > 40*time.Millisecond {
		t.Errorf("mean delay %s, want about 15 ms", mean)
	}
	if share := float64(dropped) / count; share < 0.28 || share > 0.39 {
		t.Errorf("%.1f %% dropped, want about 33", 100*share)
	}
}

func TestManagedQueuesHaveLimits(t *testing.T) {
	for _, discipline := range link.Disciplines() {
		m := managed(link.Queue{Discipline: discipline, Packets: 20})
		l := newLoad(t, m)
		for range 100 {
			l.offer(0, 1, false)
		}
		if m.Backlog() != 20*maxFrame {
			t.Errorf("%s: %d bytes wait, want 20 frames", discipline, m.Backlog())
		}
		l.finish(100)
	}
}

// Any input: each frame comes back once.
func TestManagedQueuesLoseNothing(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 99))
		for _, discipline := range link.Disciplines() {
			m := managed(link.Queue{Discipline: discipline, Packets: 1 + random.IntN(300), Mark: random.IntN(2) == 0})
			l := newLoad(t, m)
			var at int64
			for range 3000 {
				at += int64(random.ExpFloat64() * float64(serial) * random.Float64() * 2)
				l.offer(at, uint32(random.IntN(5)), random.IntN(2) == 0)
			}
			l.finish(3000)
			if t.Failed() {
				t.Fatalf("%s, seed %d", discipline, seed)
			}
		}
	}
}

func TestManagedQueuesAllocateNothing(t *testing.T) {
	for _, discipline := range link.Disciplines() {
		m := managed(link.Queue{Discipline: discipline, Packets: 100})
		var at int64
		n := testing.AllocsPerRun(1000, func() {
			at += serial / 3
			m.Offer(at, Frame{Length: maxFrame, Flow: uint32(at)})
			m.Take(at)
			m.Take(at)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a frame", discipline, n)
		}
	}
}
