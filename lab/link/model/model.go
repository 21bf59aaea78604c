// SPDX-License-Identifier: Apache-2.0

// Package model decides the fate of each frame of an emulated link: its departure time, and whether
// it is lost, marked, duplicated or damaged. It is pure: time is a parameter, chance comes from a
// seeded generator, nothing is allocated.
//
// A frame's departure is decided when it arrives, so a link needs no events of its own:
//
//	frame -> bottleneck queue (drop at the tail, mark) -> wire at the rate -> loss -> damage -> delay, jitter -> departure
//	                                                                              \-> a duplicate, with the same departure
//
// The queue is virtual. Because it is served at a constant rate in order of arrival, one number
// describes it: the time at which the wire becomes free. A small ring of the waiting frames' sizes
// makes the limits exact in bytes and packets.
package model

import (
	"math"
	"math/rand/v2"

	"weir/lab/link"
	"weir/lab/link/loss"
)

// Fate is the outcome for a frame.
type Fate uint8

const (
	Pass Fate = iota
	QueueDrop
	LossDrop
)

// Decision is the link's decision about one frame. At is in the clock of the arrivals, in ns.
type Decision struct {
	Fate      Fate
	Mark      bool  // set CE if the frame is ECN-capable
	Duplicate bool  // send it twice at At
	Damage    bool  // invert the bit Bit after the Ethernet header
	Reordered bool  // it was not delayed, so it may overtake others
	Bit       int   // 0 is the first bit after the Ethernet header
	At        int64 // departure
}

// ethernetHeader is never damaged, because a frame with damaged addresses would not arrive.
const ethernetHeader = 14

// Link is one direction's state. It is not safe for concurrent use; make one with [New].
type Link struct {
	direction link.Direction
	random    *rand.Rand
	wire      wire
	loss      loss.Process // nil without loss
	plan      *plan        // nil without a schedule
	last      int64        // latest departure, for KeepOrder

	delay, jitter float64
}

// New makes a direction's model. most is the maximum number of waiting frames: beyond it frames are
// dropped as if the queue were full, even if the direction's own limits allow more.
func New(d link.Direction, most int) *Link {
	l := &Link{
		direction: d,
		random:    rand.New(rand.NewPCG(d.Seed, 0x9e3779b97f4a7c15)),
		wire:      newWire(d, most),
		loss:      d.Loss.Start(),
		last:      math.MinInt64,
		delay:     float64(d.Delay),
		jitter:    float64(d.Jitter),
		plan:      newPlan(d),
	}
	l.wire.plan = l.plan
	return l
}

// Backlog is the number of waiting bytes at a time, without the frame on the wire.
func (l *Link) Backlog(now int64) int64 {
	l.wire.advance(now)
	return l.wire.octets
}

// Decide returns the fate of a frame of length bytes (Ethernet header included, FCS not) that
// arrives at now. now must not decrease.
func (l *Link) Decide(now int64, length int) Decision {
	free, mark, queued := l.wire.accept(now, length)
	if !queued {
		return Decision{Fate: QueueDrop}
	}
	return l.behind(free, length, mark)
}

// behind returns the fate of a frame that leaves the wire at free.
func (l *Link) behind(free int64, length int, mark bool) Decision {
	losing, delay := l.loss, l.delay
	if l.plan != nil && l.plan.begun {
		step := l.plan.step(float64(free))
		losing, delay = step.loss, step.delay
	}
	if losing != nil && losing.Lost(l.random) {
		return Decision{Fate: LossDrop}
	}
	d := Decision{Mark: mark, At: free}
	if bits := 8 * (length - ethernetHeader); bits > 0 && l.chance(l.direction.Corrupt) {
		d.Damage, d.Bit = true, l.random.IntN(bits)
	}
	d.Duplicate = l.chance(l.direction.Duplicate)
	if l.chance(l.direction.Reorder) {
		d.Reordered = true
		return d
	}
	d.At += l.propagation(delay)
	if l.direction.KeepOrder {
		d.At = max(d.At, l.last)
		l.last = d.At
	}
	return d
}

// chance draws only if p is above 0, so that one impairment does not shift another's random
// choices.
func (l *Link) chance(p float64) bool { return p > 0 && l.random.Float64() < p }

// propagation draws the delay after the wire, in ns; never negative.
func (l *Link) propagation(delay float64) int64 {
	if l.jitter > 0 {
		delay += l.jitter * l.deviation()
	}
	return int64(max(0, delay))
}

// deviation draws from the jitter's shape.
func (l *Link) deviation() float64 {
	if l.direction.Shape == link.Normal {
		return l.random.NormFloat64()
	}
	return Quantile(l.direction.Shape, l.random.Float64())
}

// Quantile is the u-quantile of a jitter shape, 0 < u < 1: uniform over ±1, or with mean 0 and
// standard deviation 1.
func Quantile(shape link.JitterShape, u float64) float64 {
	switch shape {
	case link.Normal:
		return math.Sqrt2 * math.Erfinv(2*u-1)
	case link.Pareto:
		return pareto(1 - u)
	}
	return 2*u - 1
}

// pareto converts a uniform number in (0, 1] to a Pareto variable of shape 3, normalized to mean 0
// and standard deviation 1: for scale 1 its mean is 3/2 and its variance 3/4. Like netem's table it
// ends at 4 standard deviations.
func pareto(uniform float64) float64 {
	x := 1 / math.Cbrt(uniform)
	return min(4, (x-1.5)/math.Sqrt(0.75))
}
