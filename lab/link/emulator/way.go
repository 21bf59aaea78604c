// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"golang.org/x/sys/unix"

	"weir/internal/kernel/xsk"
	"weir/lab/link"
	"weir/lab/link/model"
	"weir/record/hist"
)

const (
	receiveBatch = 64
	sendBatch    = 32 // small, so that the last of a batch is not much later than the first
)

// way is one direction of a cable: from one socket to the other, by way of the model and the hold.
type way struct {
	from, to *xsk.Socket
	store    *store
	model    *model.Link
	hold     hold
	refill   int // give the kernel buffers when it has fewer
	batch    [receiveBatch]xsk.Desc
	due      [sendBatch]int64 // departures of the frames being sent
	partial  xsk.Desc         // first part of a frame whose end has not arrived
	tail     xsk.Desc         // its last part so far
	pending  bool
	seen     int64 // latest arrival
	blocked  bool  // the device takes no more for now
	counters link.Counters
	lateness hist.Histogram
	behind   behind
}

func newWay(from, to *xsk.Socket, s *store, d link.Direction, ring int) *way {
	w := &way{from: from, to: to, store: s, model: model.New(d, s.umem.Count()), refill: ring * 3 / 4}
	ordered := (d.Jitter == 0 || d.KeepOrder) && d.Reorder == 0
	w.hold = newHold(ordered, s.umem.Count())
	w.lateness.Record(0) // takes its memory now
	w.lateness.Reset()
	w.behind.begin()
	return w
}

// receive takes what has arrived and decides on it; it says whether there was anything.
func (w *way) receive() bool {
	w.to.Reap()
	if w.from.Filled() < w.refill {
		w.from.Fill()
	}
	n := w.from.Receive(w.batch[:])
	if n > 0 {
		w.behind.add(w.store.umem.Stamp(w.batch[0]), monotonic())
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
	d := w.model.Decide(w.seen, octets)
	w.counters.MaxBacklog = max(w.counters.MaxBacklog, uint64(w.model.Backlog(w.seen)))
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

// send hands the frames that are due by now to the other end; it says whether there were any.
func (w *way) send(now int64) bool {
	n := 0
	for n < sendBatch && w.hold.next() <= now && w.to.Room() >= mostParts {
		item := w.hold.pop()
		w.due[n] = item.at
		n++
		w.transmit(item.frame)
	}
	if n == 0 && w.to.Unsent() == 0 {
		w.blocked = w.hold.next() <= now // due, and no room: the receiver has not consumed what it was sent
		return false
	}
	// A frame that the device drops (ErrDropped) is in the device's own account, which Overruns
	// includes.
	err := w.to.Kick()
	w.blocked = err == xsk.ErrAgain || err == xsk.ErrDown
	if n > 0 {
		after := monotonic()
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

func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}
