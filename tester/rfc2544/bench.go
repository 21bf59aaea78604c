// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"time"

	"weir/record/hist"
	"weir/tester"
	"weir/tester/generator"
	"weir/tester/session"
)

// Ports is a Bench: a device under test between two ports of this machine. Its analyzers stay
// attached from trial to trial; the caller must Close it.
type Ports struct {
	A, B          session.Port
	Header        tester.Header // of frames from A to B; missing fields are filled in as in a session
	Bidirectional bool
	IKnow         bool
	Device        Device         // nil for an external device
	Engine        session.Engine // nil is the machine's own

	whole      bool              // one stream per direction, at any rate
	next       int               // identifier of the next stream, so that stragglers of a trial cannot count in the next one
	mechanisms map[string]string // of the trials so far
	kept       session.Kept      // used if Engine is nil
}

// Describe returns the mechanisms of the trials so far.
func (p *Ports) Describe() map[string]string { return maps.Clone(p.mechanisms) }

// Learn sends a few frames from both ports, so that address tables fill and neighbours are resolved
// in both directions.
func (p *Ports) Learn(ctx context.Context, size int) error {
	const frames, rate = 8, 1000
	t := Trial{Size: size, Rate: rate, Frames: frames, Duration: 100 * time.Millisecond}
	_, err := session.Run(ctx, p.config([]session.Direction{p.direction(p.A, p.B, false, t), p.direction(p.B, p.A, true, t)}, 100*time.Millisecond))
	return err
}

// Trial runs one trial.
func (p *Ports) Trial(ctx context.Context, t Trial, residual time.Duration) (Outcome, error) {
	before, err := p.read()
	if err != nil {
		return Outcome{}, err
	}
	directions := p.directions(t)
	account, err := session.Run(ctx, p.config(directions, residual))
	if err != nil {
		return Outcome{}, err
	}
	after, err := p.read()
	if err != nil {
		return Outcome{}, err
	}
	p.mechanisms = account.Mechanisms
	outcome := outcomeOf(account, t, directions)
	if p.Device != nil {
		done := after.since(before)
		outcome.Device = &done
	}
	return outcome, nil
}

func (p *Ports) read() (DeviceReading, error) {
	if p.Device == nil {
		return DeviceReading{}, nil
	}
	return p.Device.Read()
}

// Close detaches the analyzers.
func (p *Ports) Close() error { return p.kept.Close() }

func (p *Ports) config(directions []session.Direction, residual time.Duration) session.Config {
	c := session.Config{Name: "rfc2544", Directions: directions, IKnow: p.IKnow, Straggle: max(residual, time.Millisecond), Engine: p.Engine}
	if c.Engine == nil {
		c.Engine = &p.kept
	}
	return c
}

func (p *Ports) directions(t Trial) []session.Direction {
	directions := []session.Direction{p.direction(p.A, p.B, false, t)}
	if p.Bidirectional {
		directions = append(directions, p.direction(p.B, p.A, true, t))
	}
	return directions
}

// direction returns one generator's schedule for a trial.
func (p *Ports) direction(from, to session.Port, reverse bool, t Trial) session.Direction {
	header := p.Header
	if reverse {
		header.Source, header.Destination = header.Destination, header.Source
		header.SourceMAC, header.DestinationMAC = nil, nil
	}
	if !header.Source.IsValid() {
		header.Source = netip.IPv4Unspecified()
	}
	if !header.Destination.IsValid() {
		header.Destination = netip.IPv4Unspecified()
	}
	s := tester.Stream{
		Name: "trial", Header: header, Stamped: true, Sizes: []tester.SizeShare{{Size: t.Size, Weight: 1}},
		Gap: gapOf(t.Rate), Frames: t.Frames,
	}
	schedule := tester.Schedule{Duration: t.Duration, Policy: tester.CatchUp, Batch: t.Batch, Streams: p.spread(s, p.parts(from, t))}
	if t.Frames == 0 && t.Rate > 0 && t.Then == nil {
		schedule.Policy, schedule.Tolerance, schedule.Coalesce = tester.Skip, tolerable*schedule.Streams[0].Gap, coalesce
	}
	if t.Even {
		schedule.Policy, schedule.Tolerance, schedule.Coalesce, schedule.Batch = tester.Space, 0, 0, 1
	}
	if t.Then != nil {
		schedule.Streams[0].Frames = uint64(t.Rate * t.Duration.Seconds())
		after := s
		after.ID, after.Name, after.Gap, after.Start, after.Frames = p.id(), "after", gapOf(t.Then.Rate), t.Duration, 0
		schedule.Streams = append(schedule.Streams, after)
		schedule.Duration += t.Then.Duration
	}
	return session.Direction{From: from, To: to, Schedule: schedule}
}

const (
	// tolerable is the number of frames that a delayed generator catches up on; they fit the
	// buffers of any device. It skips the rest, because a longer burst would overflow a device at a
	// rate that it forwards. The trial is valid while skips are a small share (Config.MaxShort),
	// and its rate is that of the sent frames.
	tolerable = 100
	// coalesce is the maximum wait of a paced frame for others to leave with it.
	coalesce = 20 * time.Microsecond
	// maxTogether is the maximum number of frames that a generator sends at once.
	maxTogether = 64
)

// parts returns the number of CPUs for a trial of one direction. Frames sent one at a time or in
// one burst come from one CPU.
func (p *Ports) parts(from session.Port, t Trial) int {
	if p.whole || t.Whole || t.Even || t.Frames > 0 || t.Batch > 0 || t.Then != nil {
		return 1
	}
	cpus := len(generator.CPUs(generator.Port{CPUs: from.CPUs}))
	if p.Bidirectional {
		cpus /= 2
	}
	return generator.Parts(t.Rate, cpus)
}

// spread divides one stream into several with interleaved frames.
func (p *Ports) spread(s tester.Stream, parts int) []tester.Stream {
	var all []tester.Stream
	for i := range parts {
		one := s
		one.ID, one.Gap, one.Start = p.id(), s.Gap*time.Duration(parts), s.Gap*time.Duration(i)
		all = append(all, one)
	}
	return all
}

// id returns identifiers round robin; a stream of a much earlier trial has no frame in flight.
func (p *Ports) id() uint16 {
	id := p.next % tester.MaxStreams
	p.next++
	return uint16(id)
}

// gapOf returns the time between frames, in whole ns; 0 for as fast as possible.
func gapOf(rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(max(math.Round(1e9/rate), 1))
}

// outcomeOf derives a trial's outcome from the account of its run.
func outcomeOf(a session.Account, t Trial, directions []session.Direction) Outcome {
	o := Outcome{Late: late(a.Lateness, directions[0].Schedule.Streams[0].Gap), Dropped: a.Dropped, Steal: a.Steal, Others: a.Others, LinkDown: a.LinkDown, Elapsed: a.Elapsed, Refused: a.Refused}
	o.Even, o.Together = t.Even, together(a.Lateness, t)
	for _, d := range directions {
		streams := a.Streams[:len(d.Schedule.Streams)]
		a.Streams = a.Streams[len(streams):]
		if t.Then != nil {
			f := flowOf(streams[0])
			f.LastLoss = lastLoss(streams[1], t.Then.Rate)
			o.Directions = append(o.Directions, f)
			continue
		}
		o.Directions = append(o.Directions, flowOf(streams...))
	}
	return o
}

// late counts the frames that left more than a gap after their due time, together with the next
// one.
func late(lateness *hist.Histogram, gap time.Duration) (n uint64) {
	least := uint64(max(gap, LateAfter))
	for index, count := range lateness.All() {
		if low, _ := hist.Bounds(index); low >= least {
			n += count
		}
	}
	return n
}

// together returns the maximum number of frames sent at once: coalesced ones, or the burst of a
// late generator.
func together(lateness *hist.Histogram, t Trial) uint64 {
	switch {
	case t.Even:
		return 1
	case t.Rate == 0:
		return maxTogether
	}
	waited := uint64(min(max(t.Rate*coalesce.Seconds(), 1), maxTogether))
	if t.Batch == 1 {
		waited = 1
	}
	return max(waited, min(lateness.Max()/uint64(gapOf(t.Rate)), tolerable)+1) // for spread streams an upper bound
}

// flowOf returns one direction: the sum of its streams.
func flowOf(streams ...session.Stream) Flow {
	f := Flow{Delay: &hist.Histogram{}}
	for _, s := range streams {
		c := s.Received
		f.Sent, f.Received = f.Sent+s.Sent.Frames, f.Received+c.Unique
		f.Offered, f.Forwarded = f.Offered+s.Rate(), f.Forwarded+s.Arrival()
		f.Duplicates, f.Reordered = f.Duplicates+c.Duplicates, f.Reordered+c.Reordered
		f.Delay.Merge(c.Delay)
	}
	return f
}

// lastLoss returns the time from a stream's first frame to the sending of the last one that was
// lost; 0 without losses. The receiver's last sequence error names the frame after the loss; at the
// very end the lost frame is the last one sent.
func lastLoss(s session.Stream, rate float64) time.Duration {
	if s.Lost == 0 || rate <= 0 {
		return 0
	}
	last := uint64(0)
	switch e := s.Received.LastError; {
	case s.TailLost > 0:
		last = s.Sent.Frames - 1
	case e != nil:
		last = e.Got&(1<<session.SequenceBits-1) - 1
	}
	return time.Duration(float64(last) / rate * float64(time.Second))
}

// errNoSilence reports a device that did not recover.
func errNoSilence(waited time.Duration) error {
	return &unfitError{Reason: fmt.Sprintf("the device forwarded nothing for %s after the reset", waited)}
}
