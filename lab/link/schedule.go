// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/lab/link/loss"
)

// Step is a direction's state for a time. A schedule begins with the run's traffic and repeats.
type Step struct {
	For time.Duration
	// BitsPerSecond is the rate on the wire; 0 stops the link.
	BitsPerSecond float64
	Delay         time.Duration
	Loss          loss.Loss
}

// Cycle is the duration of all steps once.
func (d Direction) Cycle() (sum time.Duration) {
	for _, s := range d.Schedule {
		sum += s.For
	}
	return sum
}

// Peak is the direction with its highest rate and its longest delay.
func (d Direction) Peak() Direction {
	for _, s := range d.Schedule {
		d.Rate = max(d.Rate, units.BitRate(s.BitsPerSecond))
		d.Delay = max(d.Delay, s.Delay)
	}
	return d
}

// Slowest is the direction's lowest rate above 0.
func (d Direction) Slowest() units.BitRate {
	slowest := d.Rate
	for _, s := range d.Schedule {
		if rate := units.BitRate(s.BitsPerSecond); rate > 0 {
			slowest = min(slowest, rate)
		}
	}
	return slowest
}

// maxSteps bounds the memory of a schedule.
const maxSteps = 1 << 20

// checkSchedule rejects invalid steps.
func checkSchedule(d Direction) error {
	usage := func(format string, args ...any) error {
		return fault.New(fault.Usage, "correct the link's schedule", format, args...)
	}
	var carried float64
	for i, s := range d.Schedule {
		switch {
		case s.For <= 0:
			return usage("step %d of a schedule lasts %s", i+1, s.For)
		case !(s.BitsPerSecond >= 0) || s.BitsPerSecond > 1e15 || s.Delay < 0:
			return usage("step %d of a schedule has a rate or delay that cannot be", i+1)
		}
		if err := s.Loss.Check(); err != nil {
			return fmt.Errorf("step %d of a schedule: %w", i+1, err)
		}
		carried += s.BitsPerSecond * s.For.Seconds()
	}
	switch {
	case len(d.Schedule) == 0:
		return nil
	case d.Rate == 0:
		return usage("a schedule needs a rate")
	case d.Queue.Managed():
		return usage("a schedule and %s do not go together", d.Queue.Discipline)
	case len(d.Schedule) > maxSteps:
		return usage("a schedule of more than %d steps", maxSteps)
	case carried < 8*64:
		return usage("a schedule lets nothing pass")
	}
	return nil
}

// Opportunity is the number of bytes that pass at each line of a trace (mahimahi's mm-link).
const Opportunity = 1500

// ReadTrace converts a packet-delivery trace in mahimahi's format to steps. Each line is a time in
// whole milliseconds at which 1500 bytes can pass. Times do not decrease, and the trace repeats at
// the last one.
func ReadTrace(text string) (steps []Step, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	add := func(length, opportunities int) {
		if length > 0 {
			steps = append(steps, Step{For: time.Duration(length) * time.Millisecond, BitsPerSecond: float64(opportunities) * Opportunity * 8 * 1000 / float64(length)})
		}
	}
	// The opportunities at millisecond n pass between n-1 and n.
	last, here, line := 0, 0, 0
	for lines.Scan() {
		line++
		word := strings.TrimSpace(lines.Text())
		if word == "" {
			continue
		}
		at, err := strconv.Atoi(word)
		if err != nil || at < 0 || at > 1e9 {
			return nil, fmt.Errorf("line %d: %q is no time in milliseconds", line, word)
		}
		at = max(at, 1)
		switch {
		case at < last:
			return nil, fmt.Errorf("line %d: %d comes before %d", line, at, last)
		case at > last:
			add(min(1, last), here)
			add(at-last-1, 0)
			last, here = at, 0
		}
		here++
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, fmt.Errorf("no line has a time")
	}
	add(1, here)
	return steps, nil
}
