// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/infile"
	"weir/lab/link"
	"weir/lab/link/loss"
)

// traceFile describes a valid trace file.
var traceFile = infile.Kind{What: "trace", Most: 16 << 20, Name: "name a file in mahimahi's format", Larger: "cut the trace"}

// schedule reads a direction's changes over time: steps, or a trace of deliveries.
func (b *builder) schedule(s *sided, out *link.Direction) {
	given := s.Schedule
	if given == nil && s.Trace == nil {
		return
	}
	key := "schedule"
	if s.Trace != nil {
		key = "trace"
	}
	switch {
	case given != nil && s.Trace != nil:
		b.complain(s.at("trace"), "keep one of them", "%s: a schedule and a trace are two accounts of one rate", s.key("trace"))
		return
	case out.Rate == 0:
		b.complain(s.at(key), "add a rate, with which the link is calibrated", "%s: a link without a rate has none that could change", s.key(key))
		return
	case out.Queue.Managed():
		b.complain(s.at(key), "remove the discipline", "%s: a queue under %s does not follow a schedule", s.key(key), out.Queue.Discipline)
		return
	case given != nil:
		b.steps(s, *given, out)
	default:
		b.trace(s, out)
	}
	if len(out.Schedule) > 0 && out.Peak().Rate > out.Rate && key == "schedule" {
		b.complain(s.at(key), fmt.Sprintf("give the link a rate of %s", out.Peak().Rate), "%s: a step is faster than the link's rate of %s, with which it is calibrated", s.key(key), out.Rate)
	}
}

// steps reads a schedule. A step keeps the link's value for a missing key.
func (b *builder) steps(s *sided, given []stepFile, out *link.Direction) {
	carries := false
	for i, f := range given {
		path := fmt.Sprintf("%s[%d]", s.key("schedule"), i)
		step := link.Step{For: time.Duration(f.For), BitsPerSecond: float64(out.Rate), Delay: out.Delay, Loss: out.Loss}
		if step.For < time.Millisecond || step.For > maxDuration {
			b.complain(f.At("for"), "write a time such as 2s", "%s.for: %s is outside 1ms to %s", path, step.For, maxDuration)
		}
		if f.Rate != nil {
			step.BitsPerSecond = float64(*f.Rate)
		}
		if f.Delay != nil {
			if step.Delay = time.Duration(*f.Delay); step.Delay > maxDelay {
				b.complain(f.At("delay"), tryDelay, "%s.delay: a delay of %s is above %s", path, step.Delay, maxDelay)
			}
		}
		if f.Loss != nil {
			step.Loss = f.Loss.Read(&loss.Draft{Path: path + ".loss", Place: f.At("loss"), Complain: b.complain})
		}
		carries = carries || step.BitsPerSecond > 0
		out.Schedule = append(out.Schedule, step)
	}
	if !carries {
		b.complain(s.at("schedule"), "add a step with a rate", "%s: nothing ever passes", s.key("schedule"))
	}
}

// trace reads a trace: the text itself if it has several lines or is a number, otherwise a file
// name.
func (b *builder) trace(s *sided, out *link.Direction) {
	text := strings.TrimSpace(*s.Trace)
	if !strings.Contains(text, "\n") && strings.Trim(text, "0123456789") != "" {
		content, err := traceFile.Read(text)
		if err != nil {
			b.complain(s.at("trace"), "name a file in mahimahi's format, or write the trace itself", "%s: %v", s.key("trace"), err)
			return
		}
		text = string(content)
	}
	steps, err := link.ReadTrace(text)
	if err != nil {
		b.complain(s.at("trace"), "write a time in milliseconds a line, in order: 1500 bytes pass at each", "%s: %v", s.key("trace"), err)
		return
	}
	for i := range steps {
		steps[i].Delay, steps[i].Loss = out.Delay, out.Loss
	}
	out.Schedule = steps
}
