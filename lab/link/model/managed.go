// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/lab/link"
)

// Managed is the bottleneck of a direction whose queue a discipline manages. What becomes of a
// frame is not known when it arrives, but when its turn comes: frames wait here and are taken out
// again.
//
//	frame -> Offer -> queues -> Take, when the wire is free -> wire -> loss ... as of any Link
//
// It is not safe for concurrent use, and allocates nothing once it is made.
type Managed struct {
	link       *Link
	queue      link.Queue
	octetTime  float64 // ns per octet
	free       float64 // when the wire will be free, ns
	octets     int64   // of waiting frames
	count      int     // of slots that are taken
	waiting    int     // of frames that wait, those that were dropped left out
	items      []item
	vacant     int32 // head of the list of unused items
	dropped    list  // by the discipline; Take gives them back
	discipline discipline
}

// Frame is what a discipline knows of a frame.
type Frame struct {
	Length int    // octets, Ethernet header included
	Flow   uint32 // a hash of what tells flows apart
	ECN    bool   // it can be marked
}

// item is a frame that waits. Its place in Managed.items is its slot.
type item struct {
	Frame
	arrived int64
	next    int32
}

// list is a chain of items, first in, first out; the zero value is not empty: use emptyList.
type list struct {
	head, tail int32
	octets     int64
}

const nobody = -1

func emptyList() list { return list{head: nobody, tail: nobody} }

// discipline decides which frame is next, and which are dropped.
type discipline interface {
	// enqueue takes in a waiting frame, or says that it is dropped. mark asks for a mark.
	enqueue(m *Managed, now int64, slot int32) (mark, kept bool)
	// dequeue gives the frame whose turn it is, or nobody. It hands those that it drops to
	// Managed.drop.
	dequeue(m *Managed, now int64) (slot int32, mark bool)
}

// Manage returns the bottleneck of a direction whose queue is managed, and nil for others. most is
// the largest number of frames that can wait.
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

// Backlog is how many octets wait.
func (m *Managed) Backlog() int64 { return m.octets }

// Waiting is how many frames wait, those that were dropped and not yet taken back included.
func (m *Managed) Waiting() int { return m.count }

// Slots is how many frames can wait: the slots of Offer are below it.
func (m *Managed) Slots() int { return len(m.items) }

// Offer puts a frame that arrives at now into the queue. Its slot names it until Take gives it
// back; without ok it is dropped at once. Arrivals must not run backwards.
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

// full says that a frame would be beyond the queue's limits. FQ-CoDel drops another in its place.
func (m *Managed) full(length int) bool {
	if m.queue.Discipline == link.FQCoDel {
		return false
	}
	return m.queue.Packets > 0 && m.waiting >= m.queue.Packets || m.queue.Bytes > 0 && m.octets+int64(length) > int64(m.queue.Bytes)
}

// beyond says that the frames that wait are.
func (m *Managed) beyond() bool {
	return m.queue.Packets > 0 && m.waiting > m.queue.Packets || m.queue.Bytes > 0 && m.octets > int64(m.queue.Bytes)
}

// Next is when Take has something to give; math.MaxInt64 if nothing waits.
func (m *Managed) Next() int64 {
	switch {
	case m.dropped.head != nobody:
		return math.MinInt64
	case m.octets == 0:
		return math.MaxInt64
	}
	return int64(m.free)
}

// Take gives back the next frame of which it is known by now what becomes of it: one that was
// dropped, or one that gets onto the wire. Without ok there is none.
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

// drop has Take give a frame back as dropped.
func (m *Managed) drop(slot int32) {
	m.leave(slot)
	m.push(&m.dropped, slot)
}

// leave notes that a frame does not wait any more.
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

// delay is how long the octets that wait take on the wire.
func (m *Managed) delay() time.Duration { return time.Duration(float64(m.octets) * m.octetTime) }
