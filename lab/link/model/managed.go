// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/lab/link"
)

// Managed is the bottleneck of a direction with a queue discipline. A frame's fate is decided when
// it is dequeued, not when it arrives:
//
//	frame -> Offer -> queues -> Take, when the wire is free -> wire -> loss ... as of any Link
//
// It is not safe for concurrent use, and does not allocate after its creation.
type Managed struct {
	link       *Link
	queue      link.Queue
	octetTime  float64 // ns per byte
	free       float64 // end of the current frame on the wire, ns
	octets     int64   // bytes of waiting frames
	count      int     // used slots
	waiting    int     // waiting frames without dropped ones
	items      []item
	vacant     int32 // head of the list of unused items
	dropped    list  // by the discipline; Take returns them
	discipline discipline
}

// Frame holds the properties of a frame that a discipline uses.
type Frame struct {
	Length int    // bytes, Ethernet header included
	Flow   uint32 // flow hash
	ECN    bool   // ECN-capable
}

// item is a waiting frame. Its index in Managed.items is its slot.
type item struct {
	Frame
	arrived int64
	next    int32
}

// list is a first-in first-out chain of items. The zero value is not valid: use emptyList.
type list struct {
	head, tail int32
	octets     int64
}

const nobody = -1

func emptyList() list { return list{head: nobody, tail: nobody} }

// discipline decides about the next frame and about drops.
type discipline interface {
	// enqueue adds a waiting frame, or reports that it is dropped. mark requests a mark.
	enqueue(m *Managed, now int64, slot int32) (mark, kept bool)
	// dequeue returns the next frame, or nobody. It passes dropped frames to Managed.drop.
	dequeue(m *Managed, now int64) (slot int32, mark bool)
}

// Manage returns the bottleneck of a direction with a queue discipline, and nil for others. most is
// the maximum number of waiting frames.
func (l *Link) Manage(most int) *Managed {
	q := l.direction.Queue
	if !q.Managed() || l.direction.Rate == 0 {
		return nil
	}
	q = q.WithDefaults()
	m := &Managed{link: l, queue: q, octetTime: 8e9 / float64(l.direction.Rate), items: make([]item, max(2, most)), dropped: emptyList()}
	for i := range m.items {
		m.items[i].next = int32(i) + 1
	}
	m.items[len(m.items)-1].next = nobody
	switch q.Discipline {
	case link.CoDel:
		m.discipline = &single{all: emptyList(), codel: codel{target: int64(q.Target), interval: int64(q.Interval)}}
	case link.FQCoDel:
		m.discipline = newFair(q)
	default:
		m.discipline = newPIE(q, rand.New(rand.NewPCG(l.direction.Seed, 0x517cc1b727220a95)))
	}
	return m
}

// Backlog is the number of waiting bytes.
func (m *Managed) Backlog() int64 { return m.octets }

// Waiting is the number of waiting frames, including dropped ones that Take has not returned.
func (m *Managed) Waiting() int { return m.count }

// Slots is the maximum number of waiting frames; Offer's slots are below it.
func (m *Managed) Slots() int { return len(m.items) }

// Offer enqueues a frame that arrives at now. Its slot identifies it until Take returns it; without
// ok it is dropped at once. now must not decrease.
func (m *Managed) Offer(now int64, f Frame) (slot int, mark, ok bool) {
	s := m.vacant
	if s == nobody || m.full(f.Length) {
		return 0, false, false
	}
	m.vacant = m.items[s].next
	m.items[s] = item{Frame: f, arrived: now, next: nobody}
	if m.octets == 0 && m.free < float64(now) {
		m.free = float64(now) // the wire was idle until now
	}
	m.count++
	m.waiting++
	m.octets += int64(f.Length)
	mark, ok = m.discipline.enqueue(m, now, s)
	if !ok {
		m.leave(s)
		m.release(s)
	}
	return int(s), mark, ok
}

// full reports whether one more frame exceeds the queue's limits. FQ-CoDel drops another frame
// instead.
func (m *Managed) full(length int) bool {
	if m.queue.Discipline == link.FQCoDel {
		return false
	}
	return m.queue.Packets > 0 && m.waiting >= m.queue.Packets || m.queue.Bytes > 0 && m.octets+int64(length) > int64(m.queue.Bytes)
}

// beyond reports whether the waiting frames exceed the limits.
func (m *Managed) beyond() bool {
	return m.queue.Packets > 0 && m.waiting > m.queue.Packets || m.queue.Bytes > 0 && m.octets > int64(m.queue.Bytes)
}

// Next is the time of the next frame from Take; math.MaxInt64 if nothing waits.
func (m *Managed) Next() int64 {
	switch {
	case m.dropped.head != nobody:
		return math.MinInt64
	case m.octets == 0:
		return math.MaxInt64
	}
	return int64(m.free)
}

// Take returns the next frame with a fate decided by now: dropped, or on the wire. Without ok there
// is none.
func (m *Managed) Take(now int64) (slot int, d Decision, ok bool) {
	if m.dropped.head == nobody && m.octets > 0 && int64(m.free) <= now {
		s, mark := m.discipline.dequeue(m, int64(m.free))
		if s != nobody {
			length := m.items[s].Length
			m.leave(s)
			m.release(s)
			m.free += float64(length+link.FrameOverhead) * m.octetTime
			return int(s), m.link.behind(int64(m.free), length, mark), true
		}
	}
	if m.dropped.head == nobody {
		return 0, Decision{}, false
	}
	s := m.pop(&m.dropped)
	m.release(s)
	return int(s), Decision{Fate: QueueDrop}, true
}

// drop lets Take return a frame as dropped.
func (m *Managed) drop(slot int32) {
	m.leave(slot)
	m.push(&m.dropped, slot)
}

// leave records that a frame no longer waits.
func (m *Managed) leave(slot int32) {
	m.waiting--
	m.octets -= int64(m.items[slot].Length)
}

func (m *Managed) release(slot int32) {
	m.count--
	m.items[slot].next, m.vacant = m.vacant, slot
}

func (m *Managed) push(l *list, slot int32) {
	m.items[slot].next = nobody
	if l.tail == nobody {
		l.head = slot
	} else {
		m.items[l.tail].next = slot
	}
	l.tail = slot
	l.octets += int64(m.items[slot].Length)
}

func (m *Managed) pop(l *list) int32 {
	slot := l.head
	if slot == nobody {
		return nobody
	}
	if l.head = m.items[slot].next; l.head == nobody {
		l.tail = nobody
	}
	l.octets -= int64(m.items[slot].Length)
	return slot
}

// delay is the serialization time of the waiting bytes.
func (m *Managed) delay() time.Duration { return time.Duration(float64(m.octets) * m.octetTime) }
