// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"sort"

	"weir/lab/link"
	"weir/lab/link/loss"
)

// plan is a direction's schedule. The capacity of any future time is known, so a frame's departure
// is still decided when it arrives. Times are ns, since origin or within a cycle.
type plan struct {
	origin float64
	begun  bool
	steps  []planStep
	length float64 // of a cycle
	total  float64 // bytes on the wire per cycle
}

type planStep struct {
	begin, end float64
	octets     float64 // per ns
	delay      float64
	loss       loss.Process // nil without loss
}

func newPlan(d link.Direction) *plan {
	if len(d.Schedule) == 0 {
		return nil
	}
	p := &plan{}
	for _, s := range d.Schedule {
		step := planStep{begin: p.length, end: p.length + float64(s.For), octets: s.BitsPerSecond / 8e9, delay: float64(s.Delay), loss: s.Loss.Start()}
		p.steps = append(p.steps, step)
		p.length = step.end
		p.total += step.octets * float64(s.For)
	}
	return p
}

// within returns the cycle of a time, and the time since the cycle's start.
func (p *plan) within(t float64) (cycles, at float64) {
	since := max(0, t-p.origin)
	cycles = math.Floor(since / p.length)
	return cycles, min(max(0, since-cycles*p.length), p.length)
}

// index returns the step at a time within a cycle.
func (p *plan) index(at float64) int {
	i := sort.Search(len(p.steps), func(i int) bool { return p.steps[i].end > at })
	return min(i, len(p.steps)-1)
}

// step returns the step at a time.
func (p *plan) step(t float64) *planStep {
	_, at := p.within(t)
	return &p.steps[p.index(at)]
}

// finish is the time at which octets bytes have passed from start.
func (p *plan) finish(start, octets float64) float64 {
	cycles, at := p.within(start)
	if whole := math.Floor(octets / p.total); whole > 1 {
		cycles += whole - 1
		octets -= (whole - 1) * p.total
	}
	for i := p.index(at); ; {
		s := &p.steps[i]
		if room := (s.end - at) * s.octets; octets <= room && s.octets > 0 {
			return p.origin + cycles*p.length + at + octets/s.octets
		} else {
			octets -= room
		}
		at = s.end
		if i++; i == len(p.steps) {
			i, at = 0, 0
			cycles++
		}
	}
}

// Begin starts the direction's schedule; before, the direction has its properties without a
// schedule.
func (l *Link) Begin(now int64) {
	if p := l.plan; p != nil {
		p.origin, p.begun = float64(now), true
	}
}
