// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/rand/v2"
	"time"

	"weir/lab/link"
)

// Settings of RFC 8033 sections 4.2, 4.3 and 5.1.
const (
	pieAlpha    = 0.125 // per second of delay
	pieBeta     = 1.25
	pieBurst    = 150 * time.Millisecond
	pieMostMark = 0.1 // above this probability frames are dropped even if they could be marked
	maxUpdates  = 1000
)

// pie is PIE (RFC 8033): a probability of dropping frames as they arrive, that follows the queue's
// delay and its trend.
type pie struct {
	all         list
	random      *rand.Rand
	target      time.Duration
	interval    int64
	update      int64 // when the next one is due
	probability float64
	before      time.Duration // the delay at the last update
	burst       time.Duration // that is still let pass
	started     bool
}

func newPIE(q link.Queue, random *rand.Rand) *pie {
	return &pie{all: emptyList(), random: random, target: q.Target, interval: int64(q.Interval), burst: pieBurst}
}

// catchUp makes the updates that are due by now.
func (p *pie) catchUp(m *Managed, now int64) {
	if !p.started {
		p.started, p.update = true, now+p.interval
	}
	for n := 0; p.update <= now; n++ {
		if n == maxUpdates {
			p.update = now + p.interval
			return
		}
		p.step(m.delay())
		p.update += p.interval
	}
}

// step is one update with the queue's delay.
func (p *pie) step(delay time.Duration) {
	change := pieAlpha*(delay-p.target).Seconds() + pieBeta*(delay-p.before).Seconds()
	// The smaller the probability, the smaller the steps (section 4.2).
	for _, scale := range []struct{ below, divisor float64 }{{0.000001, 2048}, {0.00001, 512}, {0.0001, 128}, {0.001, 32}, {0.01, 8}, {0.1, 2}} {
		if p.probability < scale.below {
			change /= scale.divisor
			break
		}
	}
	if p.probability >= 0.1 {
		change = min(change, 0.02)
	}
	p.probability += change
	if delay == 0 && p.before == 0 {
		p.probability *= 0.98
	}
	p.probability = min(1, max(0, p.probability))
	if p.probability == 0 && delay < p.target/2 && p.before < p.target/2 {
		p.burst = pieBurst
	} else {
		p.burst = max(0, p.burst-time.Duration(p.interval))
	}
	p.before = delay
}

func (p *pie) enqueue(m *Managed, now int64, slot int32) (mark, kept bool) {
	p.catchUp(m, now)
	if p.unlucky(m, slot) {
		if !m.queue.Mark || !m.items[slot].ECN || p.probability > pieMostMark {
			return false, false
		}
		mark = true
	}
	m.push(&p.all, slot)
	return mark, true
}

// unlucky draws, unless the queue is short enough to be safe (section 4.1).
func (p *pie) unlucky(m *Managed, slot int32) bool {
	switch {
	case p.burst > 0,
		p.before < p.target/2 && p.probability < 0.2,
		m.octets-int64(m.items[slot].Length) <= 2*maxFrame:
		return false
	}
	return p.random.Float64() < p.probability
}

func (p *pie) dequeue(m *Managed, now int64) (int32, bool) {
	p.catchUp(m, now)
	return m.pop(&p.all), false
}
