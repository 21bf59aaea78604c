// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// maxFrame is a full frame at an MTU of 1500. CoDel never drops from a queue with no more bytes
// than this (RFC 8289 section 4.4, RFC 8290).
const maxFrame = 1514

// codel is the state of RFC 8289 for one queue, times in ns:
//
//	           sojourn above target for an interval
//	not dropping ----------------------------------> dropping: every interval / sqrt(count)
//	             <----------------------------------
//	           sojourn below target, or one frame left
type codel struct {
	target, interval int64
	above            int64 // end of the first interval above the target; 0 below the target
	dropping         bool
	next             int64 // drop
	count, last      int64 // drops since dropping began, and count at its last end
}

// overdue updates the state with the queueing time of a dequeued frame, and reports whether the
// discipline may drop it. left is the number of bytes behind it.
func (c *codel) overdue(now, waited, left int64) bool {
	switch {
	case waited < c.target || left < maxFrame:
		c.above = 0
	case c.above == 0:
		c.above = now + c.interval
	default:
		return now >= c.above
	}
	return false
}

// law returns the time of the next drop (section 5.4).
func (c *codel) law(t int64) int64 {
	return t + int64(float64(c.interval)/math.Sqrt(float64(c.count)))
}

// source is a queue under CoDel.
type source struct {
	queue *list
}

// take returns the queue's next frame, or nobody, after dropping or marking due frames.
func (c *codel) take(m *Managed, s source, now int64, mark bool) (slot int32, marked bool) {
	slot, overdue := c.head(m, s, now)
	if slot == nobody {
		c.dropping = false
		return nobody, false
	}
	if c.dropping {
		return c.goOn(m, s, now, slot, overdue, mark)
	}
	if !overdue {
		return slot, false
	}
	if mark && m.items[slot].ECN {
		marked = true
	} else {
		m.drop(slot)
		slot, _ = c.head(m, s, now)
	}
	c.dropping = true
	// Soon after the last dropping state the drop rate resumes at its former value (section 5.5).
	if since := c.count - c.last; since > 1 && now-c.next < 16*c.interval {
		c.count = since
	} else {
		c.count = 1
	}
	c.next = c.law(now)
	c.last = c.count
	return slot, marked
}

// goOn is take in the dropping state.
func (c *codel) goOn(m *Managed, s source, now int64, slot int32, overdue, mark bool) (int32, bool) {
	if !overdue {
		c.dropping = false
		return slot, false
	}
	for c.dropping && now >= c.next {
		c.count++
		if mark && m.items[slot].ECN {
			c.next = c.law(c.next)
			return slot, true
		}
		m.drop(slot)
		if slot, overdue = c.head(m, s, now); slot == nobody || !overdue {
			c.dropping = false
			break
		}
		c.next = c.law(c.next)
	}
	return slot, false
}

// head removes the first frame of the queue.
func (c *codel) head(m *Managed, s source, now int64) (slot int32, overdue bool) {
	slot = m.pop(s.queue)
	if slot == nobody {
		c.above = 0
		return nobody, false
	}
	return slot, c.overdue(now, now-m.items[slot].arrived, s.queue.octets)
}

// single is one queue under CoDel.
type single struct {
	all list
	codel
}

func (s *single) enqueue(m *Managed, _ int64, slot int32) (mark, kept bool) {
	m.push(&s.all, slot)
	return false, true
}

func (s *single) dequeue(m *Managed, now int64) (int32, bool) {
	return s.take(m, source{queue: &s.all}, now, m.queue.Mark)
}
