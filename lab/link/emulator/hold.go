// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"math"
	"math/bits"

	"weir/kernel/xsk"
)

// held is a frame that waits for its departure.
type held struct {
	at     int64 // departure, CLOCK_MONOTONIC in ns
	number uint64
	frame  xsk.Desc // its first buffer
}

func (a *held) before(b *held) bool { return a.at < b.at || a.at == b.at && a.number < b.number }

// hold keeps frames until their departure: a ring if frames leave in order, otherwise a binary
// heap. Its memory is bounded and allocated at the start.
type hold struct {
	ring        []held // nil for a heap
	head, count uint32
	heap        []held
	number      uint64
}

func newHold(ordered bool, most int) hold {
	if ordered {
		return hold{ring: make([]held, 1<<bits.Len(uint(max(1, most)-1)))}
	}
	return hold{heap: make([]held, 0, most)}
}

func (h *hold) len() int {
	if h.ring != nil {
		return int(h.count)
	}
	return len(h.heap)
}

// next is the earliest departure; math.MaxInt64 without frames.
func (h *hold) next() int64 {
	switch {
	case h.len() == 0:
		return math.MaxInt64
	case h.ring != nil:
		return h.ring[h.head&uint32(len(h.ring)-1)].at
	}
	return h.heap[0].at
}

// push adds a frame; false means that the memory is full.
func (h *hold) push(at int64, frame xsk.Desc) bool {
	h.number++
	item := held{at: at, number: h.number, frame: frame}
	if h.ring != nil {
		if int(h.count) == len(h.ring) {
			return false
		}
		h.ring[(h.head+h.count)&uint32(len(h.ring)-1)] = item
		h.count++
		return true
	}
	if len(h.heap) == cap(h.heap) {
		return false
	}
	h.heap = append(h.heap, item)
	h.rise(len(h.heap) - 1)
	return true
}

// pop removes the frame of the earliest departure; among equal ones, that which came first.
func (h *hold) pop() held {
	if h.ring != nil {
		item := h.ring[h.head&uint32(len(h.ring)-1)]
		h.head++
		h.count--
		return item
	}
	item, last := h.heap[0], len(h.heap)-1
	h.heap[0] = h.heap[last]
	h.heap = h.heap[:last]
	h.sink()
	return item
}

func (h *hold) rise(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.heap[i].before(&h.heap[parent]) {
			return
		}
		h.heap[i], h.heap[parent] = h.heap[parent], h.heap[i]
		i = parent
	}
}

func (h *hold) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h.heap) {
			return
		}
		if child+1 < len(h.heap) && h.heap[child+1].before(&h.heap[child]) {
			child++
		}
		if !h.heap[child].before(&h.heap[i]) {
			return
		}
		h.heap[i], h.heap[child] = h.heap[child], h.heap[i]
		i = child
	}
}
