// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"cmp"
	"slices"

	"weir/internal/fault"
	"weir/tester"
)

// Planned is a stream that is ready to be sent.
type Planned struct {
	tester.Stream
	Templates []*Template // by index into Sizes
	Cycle     []int       // indices into Templates in send order, repeated
}

// Next returns the template of frame number n of the stream, counted from 0.
func (p *Planned) Next(n uint64) *Template { return p.Templates[p.Cycle[n%uint64(len(p.Cycle))]] }

// Period returns the time between bursts in ns; 0 without pacing.
func (p *Planned) Period() uint64 { return uint64(p.Gap) * uint64(max(p.Burst, 1)) }

// Plan checks a schedule and builds all its templates, ordered by stream identifier. Errors are
// faults of usage.
func Plan(s tester.Schedule) ([]Planned, error) {
	switch {
	case len(s.Streams) == 0:
		return nil, fault.New(fault.Usage, "give it a stream", "the schedule has no streams")
	case len(s.Streams) > tester.MaxStreams:
		return nil, fault.New(fault.Usage, "", "the schedule has %d streams: %d are the most", len(s.Streams), tester.MaxStreams)
	case s.Duration <= 0:
		return nil, fault.New(fault.Usage, "give it a duration, by which it stops at the latest", "the schedule has no end")
	case s.Policy != "" && s.Policy != tester.Skip && s.Policy != tester.CatchUp && s.Policy != tester.Space:
		return nil, fault.New(fault.Usage, "use skip or catch-up", "there is no policy %q", s.Policy)
	case s.Batch < 0 || s.Batch > 256:
		return nil, fault.New(fault.Usage, "use 1 to 256, or 0 for the mechanism's choice", "batches of %d frames cannot be sent", s.Batch)
	case s.Tolerance < 0 || s.Coalesce < 0:
		return nil, fault.New(fault.Usage, "give times above 0", "the schedule tolerates %s and lets frames wait for %s", s.Tolerance, s.Coalesce)
	}
	plan := make([]Planned, 0, len(s.Streams))
	for _, stream := range s.Streams {
		if s.Sequential && stream.Frames == 0 {
			return nil, usage(stream, "say how many frames it sends before the next stream follows", "a sequential stream has no end")
		}
		if err := Validate(stream); err != nil {
			return nil, err
		}
		p := Planned{Stream: stream, Cycle: Cycle(stream.Sizes)}
		for _, share := range stream.Sizes {
			template, err := Build(stream, share.Size)
			if err != nil {
				return nil, err
			}
			p.Templates = append(p.Templates, template)
		}
		plan = append(plan, p)
	}
	slices.SortFunc(plan, func(a, b Planned) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(plan); i++ {
		if plan[i].ID == plan[i-1].ID {
			return nil, fault.New(fault.Usage, "give every stream its own identifier", "two streams have the identifier %d", plan[i].ID)
		}
	}
	return plan, nil
}

// Ended returns the end reason of a schedule that ran for its duration: "schedule" if all its
// frames were sent, "deadline" if streams with a frame count had frames left.
func Ended(plan []Planned) string {
	for _, p := range plan {
		if p.Frames == 0 {
			return "schedule"
		}
	}
	return "deadline"
}

// Rate returns the total frame rate of the paced streams in frames/s; full reports unpaced streams.
func Rate(plan []Planned) (rate float64, full bool) {
	for _, p := range plan {
		if p.Gap == 0 {
			full = true
			continue
		}
		rate += 1 / p.Gap.Seconds()
	}
	return rate, full
}
