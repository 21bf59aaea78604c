// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/bits"

	"weir/lab/link"
)

// wire is the bottleneck: a queue in front of a wire of constant rate.
//
// The frame on the wire does not wait: limits and the marking threshold count the frames behind it.
// waiting is a ring of their start times and lengths, oldest first.
type wire struct {
	octetTime float64 // ns per byte; 0 is an unlimited rate
	limit     link.Queue
	free      float64 // end of the current frame on the wire, ns
	octets    int64   // bytes of waiting frames
	waiting   []waiter
	head      uint32
	count     uint32
	plan      *plan // nil for a constant rate
}

type waiter struct {
	start  int64 // start of its serialization and end of its wait
	length int32
}

func newWire(d link.Direction, most int) wire {
	w := wire{limit: d.Queue}
	if d.Rate == 0 {
		return w
	}
	w.octetTime = 8e9 / float64(d.Rate)
	size := uint(max(2, most))
	w.waiting = make([]waiter, 1<<bits.Len(size-1))
	return w
}

// advance removes the frames that started serialization by now.
func (w *wire) advance(now int64) {
	mask := uint32(len(w.waiting) - 1)
	for w.count > 0 && w.waiting[w.head&mask].start <= now {
		w.octets -= int64(w.waiting[w.head&mask].length)
		w.head++
		w.count--
	}
}

// accept queues a frame. It returns the time at which its last byte leaves the wire, and whether to
// mark it.
func (w *wire) accept(now int64, length int) (free int64, mark, queued bool) {
	if w.octetTime == 0 {
		return now, false, true
	}
	w.advance(now)
	start := max(w.free, float64(now))
	if waits := start > float64(now); waits {
		if w.full(length) {
			return 0, false, false
		}
		// RFC 3168 leaves the threshold to the queue: it applies to the bytes ahead of the frame.
		mark = w.limit.ECN > 0 && w.octets > int64(w.limit.ECN)
		mask := uint32(len(w.waiting) - 1)
		w.waiting[(w.head+w.count)&mask] = waiter{start: int64(start), length: int32(length)}
		w.count++
		w.octets += int64(length)
	}
	octets := float64(length + link.FrameOverhead)
	if w.plan != nil && w.plan.begun {
		w.free = w.plan.finish(start, octets)
	} else {
		w.free = start + octets*w.octetTime
	}
	return int64(w.free), mark, true
}

func (w *wire) full(length int) bool {
	switch {
	case int(w.count) == len(w.waiting):
		return true
	case w.limit.Bytes > 0 && w.octets+int64(length) > int64(w.limit.Bytes):
		return true
	}
	return w.limit.Packets > 0 && int(w.count) >= w.limit.Packets
}
