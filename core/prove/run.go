// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/core/module"
	"weir/core/prove/station"
	"weir/kernel/probe"
	"weir/record/stats"
)

// IPv6 returns why this host has no IPv6, or nil.
func IPv6() error { return probe.IPv6() }

// runner is one Run.
type runner struct {
	o      Options
	bed    *testbed
	in     *scopes
	result *Result
	tests  []Test
	left   time.Duration // remaining time
}

// Run runs the tests of the options. When ctx ends, it returns the results so far with Stopped set.
// The result contains the errors of single tests; an error of Run means that there is no result.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	ipv6 := IPv6()
	status, chosen, err := o.Chosen()
	if err != nil {
		return nil, err
	}
	r := &runner{o: o, result: &Result{Format: Format, Started: time.Now().UTC(), Peer: "a process in a network namespace of its own",
		Seed: o.Seed, Rows: []Row{}, Bypasses: []Bypass{}}}
	if r.in, err = look(o.Engine, status); err != nil {
		return nil, err
	}
	if r.tests, err = o.plan(r.in, chosen, ipv6); err != nil {
		return nil, err
	}
	if err = r.inspect(ctx); err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		r.result.Finished, r.result.Stopped = time.Now().UTC(), ctx.Err() != nil
		r.result.Peer = ""
		return r.result, nil
	}
	if o.Peer != nil {
		r.result.Peer = o.Peer.Target.String()
	} else if o.Congestion == "" {
		if r.o.Congestion, err = congestion(); err != nil {
			return nil, err
		}
	}
	r.result.Congestion = r.o.Congestion
	if r.bed, err = newTestbed(ctx, o.Engine, ipv6 == nil); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.bed.close(), o.Engine.FollowDevices(nil)) }() // modules handle the removal of the devices
	if err = r.greet(ctx); err != nil {
		return nil, err
	}
	headings := map[string]string{}
	for _, one := range status.Modules {
		headings[one.Module] = one.Part
	}
	if err = r.checks(ctx, headings); err == nil {
		err = r.bypasses(ctx, chosen)
	}
	r.result.Finished = time.Now().UTC()
	if ctx.Err() != nil {
		r.result.Stopped = true
		return r.result, nil
	}
	return r.result, err
}

// greet checks that a remote peer answers and has the token.
func (r *runner) greet(ctx context.Context) error {
	if r.o.Peer == nil {
		return nil
	}
	at := r.outside(false, r.o.Peer.Target.Addr().Unmap().Is6())
	at.peer = *r.o.Peer
	pair, err := r.connect(ctx, at, station.Flow{Protocol: station.TCP, Connections: 1, Rate: calm})
	if err != nil {
		return err
	}
	pair.Close()
	return nil
}

// measured is the result of one test.
type measured struct {
	samples []module.Sample
	c       module.Circumstances
	skip    module.Verdict
	reason  string
}

// checks measures all tests, each repetition in an order drawn from the seed.
func (r *runner) checks(ctx context.Context, headings map[string]string) error {
	all := make([]measured, len(r.tests))
	for i, t := range r.tests {
		all[i].skip, all[i].reason, all[i].c.Around = t.Skip, t.Reason, t.around
		all[i].c.Path = t.Path
	}
	r.left = r.o.Takes(r.tests)
	if err := r.capacities(ctx, all); err != nil {
		return err
	}
	type job struct{ test, repetition int }
	var jobs []job
	for i := range r.tests {
		for n := range r.o.repetitions(r.tests[i]) {
			jobs = append(jobs, job{i, n + 1})
		}
	}
	random := rand.New(rand.NewPCG(r.o.Seed, 0))
	random.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var err error
	for _, j := range jobs {
		t, m := r.tests[j.test], &all[j.test]
		if m.skip != "" {
			continue
		}
		if err = ctx.Err(); err != nil {
			break
		}
		r.report(fmt.Sprintf("%s, repetition %d of %d", named(t.Scope.Name, t.Check.Name, t.Check.Part, t.Path.String()), j.repetition, r.o.repetitions(t)))
		r.repeat(ctx, t, m, j.repetition)
		r.left -= r.o.took(t)
	}
	for i, t := range r.tests {
		row := all[i].row(t)
		row.heading = headings[t.Module]
		r.result.Rows = append(r.result.Rows, row)
	}
	return err
}

// emptyTries is the number of attempts for a flow without any received data: on a busy machine its
// sender may wait that long for a CPU.
const emptyTries = 3

// repeat measures one repetition. An error belongs to its test; the others continue.
func (r *runner) repeat(ctx context.Context, t Test, m *measured, repetition int) {
	at, err := r.routeOf(t)
	var s module.Sample
	if err == nil {
		f := flowOf(t)
		f.Congestion = r.congestionOf(t)
		for try := 0; try < emptyTries && err == nil && s.Received == 0; try++ {
			s, err = r.measure(ctx, at, f, t.meter(), t.probing(), t.Check.Warmup, r.o.window(t))
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			m.skip, m.reason = CannotSay, err.Error()
		}
		return
	}
	s.Repetition = repetition
	m.samples = append(m.samples, s)
}

func (r *runner) report(what string) {
	if r.o.Report != nil {
		r.o.Report(what, r.left)
	}
}

// row returns the row of a test.
func (m *measured) row(t Test) Row {
	out := Row{Scope: t.Scope.Name, Selector: t.Scope.Selector, Module: t.Module, Check: t.Check.Name, Part: t.Check.Part,
		Direction: t.Check.Direction, Path: t.Path, Promise: Promise{t.Check.Promise, t.Check.Words}, Samples: []module.Sample{},
		Capacity: m.c.Capacity, Verdict: m.skip, Reason: m.reason, shown: t.Check.Counters}
	if len(m.samples) == 0 {
		if out.Verdict == "" {
			out.Verdict, out.Reason = CannotSay, "stopped before it was measured"
		}
		return out
	}
	out.Samples, out.Counters = m.samples, map[string]uint64{}
	var values, delays []float64
	for _, s := range m.samples {
		value := s.Received
		if t.Check.Value != nil {
			value = t.Check.Value(s)
		}
		values, delays = append(values, value), append(delays, s.Delay.Seconds())
		for name, n := range s.Counters {
			out.Counters[name] += n
		}
	}
	out.Measured = stats.Of(values)
	if t.Check.Promise > 0 {
		out.Share = out.Measured.Mean / float64(t.Check.Promise)
	}
	if t.Path.Protocol == module.TCP {
		delay := stats.Of(delays)
		out.ExtraDelay = &delay
	}
	if t.Path.Protocol == module.TCP || t.Path.Protocol == module.QUIC {
		losses := module.LossesOf(m.samples)
		out.Losses = &losses
	}
	if out.Verdict == "" {
		out.Verdict, out.Reason = t.Check.Judge(m.samples, m.c)
	}
	return out
}
