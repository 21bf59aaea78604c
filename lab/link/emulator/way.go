// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"slices"
	"sync/atomic"

	"weir/kernel/clock"
	"weir/kernel/xsk"
	"weir/lab/link"
	"weir/lab/link/model"
	"weir/record/hist"
)

const (
	receiveBatch = 64
	sendBatch    = 32 // small, so that the last of a batch is not much later than the first
)

// way is one direction of a cable: from one socket through model and hold to the other.
type way struct {
	clock      clock.Monotonic
	from, to   *xsk.Socket
	store      *store
	model      *model.Link
	managed    *model.Managed // nil where the queue drops at the tail alone
	waiting    []xsk.Desc     // in a managed queue, by slot
	trace      *atomic.Pointer[capture]
	depth      *depth
	side       int // 0 forward, 1 reverse
	discipline link.Discipline
	hold       hold
	refill     int // give the kernel buffers when it has fewer
	batch      [receiveBatch]xsk.Desc
	due        [sendBatch]int64 // departures of the frames being sent
	partial    xsk.Desc         // first part of an incomplete frame
	tail       xsk.Desc         // its last part so far
	pending    bool
	seen       int64 // latest arrival
	blocked    bool  // the device takes no more for now
	counters   link.Counters
	lateness   hist.Histogram
	behind     behind
}

func newWay(from, to *xsk.Socket, s *store, d link.Direction, ring int) *way {
	w := &way{discipline: d.Queue.Discipline, trace: &atomic.Pointer[capture]{}, depth: newDepth(clock.Now()), from: from, to: to, store: s, model: model.New(d, s.umem.Count()), refill: ring * 3 / 4}
	ordered := (d.Jitter == 0 || d.KeepOrder) && d.Reorder == 0 && !slices.ContainsFunc(d.Schedule, func(s link.Step) bool { return s.Delay != d.Delay })
	w.hold = newHold(ordered, s.umem.Count())
	if w.managed = w.model.Manage(s.umem.Count()); w.managed != nil {
		w.waiting = make([]xsk.Desc, w.managed.Slots())
	}
	w.lateness.Record(0) // takes its memory now
	w.lateness.Reset()
	w.behind.begin()
	return w
}

// receive processes arrived frames and reports whether there were any.
func (w *way) receive(now int64) bool {
	w.to.Reap()
	if w.from.Filled() < w.refill {
		w.from.Fill()
	}
	n := w.from.Receive(w.batch[:])
	if n > 0 {
		w.behind.add(w.store.umem.Stamp(w.batch[0]), now)
	}
	for _, d := range w.batch[:n] {
		w.part(d)
	}
	return n > 0
}

// part puts together frames of several buffers.
func (w *way) part(d xsk.Desc) {
	if w.pending {
		w.store.chain(w.tail, d)
	} else {
		w.partial = d
	}
	w.tail, w.pending = d, continues(d)
	if !w.pending {
		w.arrive(w.partial)
	}
}

// arrive applies the model to one frame.
func (w *way) arrive(frame xsk.Desc) {
	octets, _ := w.store.length(frame)
	w.seen = max(w.seen, w.store.umem.Stamp(frame))
	w.counters.Received++
	w.counters.ReceivedBytes += uint64(octets)
	if w.managed != nil {
		w.offer(frame, octets)
		return
	}
	d := w.model.Decide(w.seen, octets)
	w.gauge(w.model.Backlog(w.seen))
	w.settle(d, frame)
}

// offer puts a frame into a managed queue.
func (w *way) offer(frame xsk.Desc, octets int) {
	content := w.store.umem.Bytes(frame)
	slot, mark, ok := w.managed.Offer(w.seen, model.Frame{Length: octets, Flow: model.FlowHash(content), ECN: model.ECNCapable(content)})
	if !ok {
		w.settle(model.Decision{Fate: model.QueueDrop}, frame)
		return
	}
	if mark && model.MarkCE(content) {
		w.counters.Marked++
	}
	w.waiting[slot] = frame
	w.take(w.seen)
	w.gauge(w.managed.Backlog())
}

// gauge records the bytes in the queue.
func (w *way) gauge(octets int64) {
	w.counters.MaxBacklog = max(w.counters.MaxBacklog, uint64(octets))
	w.depth.note(w.seen, octets)
}

// take settles the frames of a managed queue that are due.
func (w *way) take(now int64) {
	for {
		slot, d, ok := w.managed.Take(now)
		if !ok {
			return
		}
		w.settle(d, w.waiting[slot])
	}
}

// inside returns the number of frames in the direction.
func (w *way) inside() int {
	n := w.hold.len()
	if w.managed != nil {
		n += w.managed.Waiting()
	}
	return n
}

// next is when there is something to do: a frame is due, or gets onto the wire.
func (w *way) next() int64 {
	if w.managed != nil {
		return min(w.hold.next(), w.managed.Next())
	}
	return w.hold.next()
}

// settle applies a decision to a frame.
func (w *way) settle(d model.Decision, frame xsk.Desc) {
	if trace := w.trace.Load(); trace != nil {
		w.note(trace, d, frame)
	}
	switch d.Fate {
	case model.QueueDrop:
		w.counters.QueueDrops++
		w.store.release(frame)
		return
	case model.LossDrop:
		w.counters.LossDrops++
		w.store.release(frame)
		return
	}
	if d.Mark && model.MarkCE(w.store.umem.Bytes(frame)) {
		w.counters.Marked++
	}
	if d.Damage {
		w.counters.Corrupted++
		w.store.damage(frame, d.Bit)
	}
	if d.Reordered {
		w.counters.Reordered++
	}
	w.keep(d.At, frame)
	if d.Duplicate {
		w.duplicate(d.At, frame)
	}
}

// note writes the frame to the trace, as it came.
func (w *way) note(trace *capture, d model.Decision, frame xsk.Desc) {
	octets, _ := w.store.length(frame)
	trace.frame(w.side, w.store.umem.Stamp(frame), octets, w.store.umem.Bytes(frame), remark(d, w.discipline))
	w.counters.Uncaptured = trace.missing[w.side]
}

func (w *way) keep(at int64, frame xsk.Desc) {
	if !w.hold.push(at, frame) {
		w.counters.Overruns++
		w.store.release(frame)
	}
}

func (w *way) duplicate(at int64, frame xsk.Desc) {
	twin, ok := w.store.copy(frame)
	if !ok {
		w.counters.Overruns++
		return
	}
	w.counters.Duplicated++
	w.keep(at, twin)
}

// send sends the due frames and reports whether there were any.
func (w *way) send(now int64) bool {
	if w.managed != nil {
		w.take(now)
	}
	n := 0
	for n < sendBatch && w.hold.next() <= now && w.to.Free() >= maxParts {
		item := w.hold.pop()
		w.due[n] = item.at
		n++
		w.transmit(item.frame)
	}
	if n == 0 && w.to.Unsent() == 0 {
		w.blocked = w.hold.next() <= now // due, but the receiver is full
		return false
	}
	// A frame that the device drops (ErrDropped) is in the device's own account, which Overruns
	// includes.
	err := w.to.Kick()
	w.blocked = err == xsk.ErrAgain || err == xsk.ErrDown
	if n > 0 {
		after := w.clock.Now()
		w.behind.add(w.due[0], after)
		for _, at := range w.due[:n] {
			w.lateness.Record(uint64(max(0, after-at)))
		}
	}
	return n > 0
}

func (w *way) transmit(d xsk.Desc) {
	w.counters.Sent++
	for {
		more := continues(d)
		var behind xsk.Desc
		if more {
			behind = w.store.follow(d)
		}
		w.counters.SentBytes += uint64(d.Len)
		w.to.Transmit(d)
		if !more {
			return
		}
		d = behind
	}
}
