// SPDX-License-Identifier: Apache-2.0

package model

import "weir/lab/link"

const (
	flowQueues = 1024 // RFC 8290 section 5.2.2
	quantum    = 1514 // octets
)

// fair is FQ-CoDel (RFC 8290): a queue per hash of a flow, deficit round robin over them with
// precedence for those that have just become active, and CoDel in each.
type fair struct {
	flows      [flowQueues]flowQueue
	fresh, old ring // active queues, new ones and the others
}

type flowQueue struct {
	list
	codel
	deficit int64
	active  bool
	next    int32
}

// ring is a chain of queues, first in, first out.
type ring struct{ head, tail int32 }

func newFair(q link.Queue) *fair {
	f := &fair{fresh: ring{nobody, nobody}, old: ring{nobody, nobody}}
	for i := range f.flows {
		f.flows[i].list, f.flows[i].next = emptyList(), nobody
		f.flows[i].codel = codel{target: int64(q.Target), interval: int64(q.Interval)}
	}
	return f
}

func (f *fair) push(r *ring, i int32) {
	f.flows[i].next = nobody
	if r.tail == nobody {
		r.head = i
	} else {
		f.flows[r.tail].next = i
	}
	r.tail = i
}

func (f *fair) pop(r *ring) int32 {
	i := r.head
	if r.head = f.flows[i].next; r.head == nobody {
		r.tail = nobody
	}
	return i
}

func (f *fair) enqueue(m *Managed, _ int64, slot int32) (mark, kept bool) {
	i := int32(m.items[slot].Flow % flowQueues)
	q := &f.flows[i]
	m.push(&q.list, slot)
	if !q.active {
		q.active, q.deficit = true, quantum
		f.push(&f.fresh, i)
	}
	if m.beyond() {
		f.shed(m)
	}
	return false, true
}

// shed drops the first frame of the queue with most octets (section 4.1).
func (f *fair) shed(m *Managed) {
	fattest := &f.flows[0]
	for i := range f.flows {
		if f.flows[i].octets > fattest.octets {
			fattest = &f.flows[i]
		}
	}
	m.drop(m.pop(&fattest.list))
}

// dequeue is section 4.2.
func (f *fair) dequeue(m *Managed, now int64) (int32, bool) {
	for {
		from := &f.fresh
		if from.head == nobody {
			from = &f.old
		}
		if from.head == nobody {
			return nobody, false
		}
		i := from.head
		q := &f.flows[i]
		if q.deficit <= 0 {
			q.deficit += quantum
			f.pop(from)
			f.push(&f.old, i)
			continue
		}
		slot, mark := q.take(m, source{queue: &q.list}, now, m.queue.Mark)
		if slot == nobody {
			f.pop(from)
			if from == &f.fresh && f.old.head != nobody { // so that a flow cannot stay new for ever
				f.push(&f.old, i)
			} else {
				q.active = false
			}
			continue
		}
		q.deficit -= int64(m.items[slot].Length)
		return slot, mark
	}
}
