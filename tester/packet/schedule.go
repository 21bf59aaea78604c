// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"math/bits"

	"weir/record/hist"
	"weir/tester"
	"weir/tester/frame"
)

const (
	indexBits = 12
	never     = ^uint64(0)
)

// scheduler decides which stream sends next, like the generator's BPF program: paced streams wait
// in a heap of due time << 12 | index, streams without a pace are served round robin. Times are ns
// since the start.
type scheduler struct {
	plan       []frame.Planned
	sent       []tester.Sent // by index
	burst      []int         // frames sent of the current burst
	heap       []uint64
	rounds     []uint16
	turn       int
	current    int // of a sequential schedule
	sequential bool
	skip       bool
	space      bool
	tolerance  uint64 // ns
	frames     uint64
	lateness   hist.Histogram
}

func newScheduler(schedule tester.Schedule, plan []frame.Planned) *scheduler {
	s := &scheduler{
		plan: plan, sent: make([]tester.Sent, len(plan)), burst: make([]int, len(plan)),
		sequential: schedule.Sequential, skip: schedule.Policy == tester.Skip, space: schedule.Policy == tester.Space, tolerance: uint64(schedule.Tolerance),
		heap: make([]uint64, 0, len(plan)), rounds: make([]uint16, 0, len(plan)),
	}
	// touch the histogram's buckets now: it must not grow while frames wait
	s.lateness.Record(1 << 36)
	s.lateness.Reset()
	for i, p := range plan {
		s.sent[i].Stream = p.ID
		switch {
		case s.sequential && i > 0:
		case p.Gap == 0 && p.Start == 0 && !s.sequential:
			s.rounds = append(s.rounds, uint16(i))
		default:
			s.push(uint64(p.Start)<<indexBits | uint64(i))
		}
	}
	return s
}

// next returns the stream to send from at the time elapsed. Otherwise index is -1, and due is the
// time of the next call: never if all streams have ended.
func (s *scheduler) next(elapsed uint64) (index int, due uint64) {
	if len(s.heap) > 0 {
		key := s.heap[0]
		index, due = int(key&(1<<indexBits-1)), key>>indexBits
		if due <= elapsed {
			if s.plan[index].Gap == 0 && !s.sequential { // its start has come: from now on it is served round robin
				s.replace(never)
				s.rounds = append(s.rounds, uint16(index))
				return s.next(elapsed)
			}
			return index, due
		}
	}
	switch {
	case len(s.rounds) > 0:
		return int(s.rounds[s.turn]), elapsed
	case len(s.heap) > 0:
		return -1, due
	}
	return -1, never
}

// account accounts for a frame that leaves, and puts its stream back with its next due time.
func (s *scheduler) account(index int, due, elapsed uint64) {
	p, sent := &s.plan[index], &s.sent[index]
	template := p.Next(sent.Frames)
	paced := s.sequential || p.Gap != 0
	if p.Gap != 0 && s.burst[index] == 0 {
		due += s.late(index, elapsed-due)
	}
	sent.Frames++
	sent.WireBytes += uint64(template.WireSize())
	sent.PayloadBytes += uint64(template.PayloadSize())
	s.frames++
	ended := p.Frames != 0 && sent.Frames >= p.Frames
	if !paced {
		s.turned(ended)
		return
	}
	if s.burst[index]++; s.burst[index] >= max(p.Burst, 1) {
		s.burst[index] = 0
		due += p.Period()
	}
	switch {
	case !ended:
		s.replace(due<<indexBits | uint64(index))
	case s.sequential && s.current+1 < len(s.plan):
		s.current++
		if s.plan[s.current].Gap == 0 { // no pace: follow at once
			due = elapsed
		}
		s.replace((due+uint64(s.plan[s.current].Start))<<indexBits | uint64(s.current))
	default:
		s.replace(never)
	}
}

func (s *scheduler) turned(ended bool) {
	if ended {
		last := len(s.rounds) - 1
		s.rounds[s.turn] = s.rounds[last]
		s.rounds = s.rounds[:last]
	} else {
		s.turn++
	}
	if s.turn >= len(s.rounds) {
		s.turn = 0
	}
}

// late accounts for lateness and returns the shift of the stream by skipped frames.
func (s *scheduler) late(index int, lateness uint64) uint64 {
	p := &s.plan[index]
	s.lateness.Record(lateness)
	if lateness > LateAfter {
		s.sent[index].Late++
	}
	period := p.Period()
	if s.space && lateness > period/8 {
		return lateness
	}
	if !s.skip || lateness < period || lateness < s.tolerance {
		return 0
	}
	missed := lateness / period
	s.sent[index].Skipped += missed * uint64(max(p.Burst, 1))
	return missed * period
}

func (s *scheduler) push(key uint64) {
	s.heap = append(s.heap, key)
	for at := len(s.heap) - 1; at > 0 && s.heap[(at-1)/2] > s.heap[at]; at = (at - 1) / 2 {
		s.heap[at], s.heap[(at-1)/2] = s.heap[(at-1)/2], s.heap[at]
	}
}

// replace replaces the smallest key; never removes it.
func (s *scheduler) replace(key uint64) {
	if key == never {
		last := len(s.heap) - 1
		key, s.heap = s.heap[last], s.heap[:last]
		if last == 0 {
			return
		}
	}
	at := 0
	for range bits.Len(uint(len(s.heap))) {
		child := 2*at + 1
		if child >= len(s.heap) {
			break
		}
		if child+1 < len(s.heap) && s.heap[child+1] < s.heap[child] {
			child++
		}
		if key <= s.heap[child] {
			break
		}
		s.heap[at] = s.heap[child]
		at = child
	}
	s.heap[at] = key
}
