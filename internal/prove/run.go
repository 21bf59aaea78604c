package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/internal/daemon"
	"weir/internal/fault"
	"weir/internal/kernel/probe"
	"weir/internal/units"
	"weir/policy"
	"weir/record/stats"
)

// IPv6 says why this host cannot send by IPv6; nil if it can.
func IPv6() error { return probe.IPv6() }

// runner is one Run.
type runner struct {
	o      Options
	bed    *testbed
	scopes []policy.Scope // in force
	result *Result
	tests  []Test
	left   time.Duration // what is still to be measured takes
}

// Run tests what the options ask for. When ctx ends it returns what was found until then, with Stopped set; what could not
// be measured is in the result. An error means that there is none.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	ipv6 := IPv6()
	tests, err := o.Plan(ipv6)
	if err != nil {
		return nil, err
	}
	r := &runner{o: o, tests: tests, result: &Result{Format: Format, Started: time.Now().UTC(), Peer: "a process in a network namespace of its own",
		Seed: o.Seed, Rates: []Rate{}, Escapes: []Escape{}}}
	if o.Peer != nil {
		r.result.Peer = o.Peer.Target.String()
	} else if o.Congestion == "" {
		if r.o.Congestion, err = congestion(); err != nil {
			return nil, err
		}
	}
	r.result.Congestion = r.o.Congestion
	status, chosen, err := o.Chosen()
	if err != nil {
		return nil, err
	}
	for _, s := range status.Scopes {
		r.scopes = append(r.scopes, s.Scope)
	}
	if r.bed, err = newTestbed(ctx, o.Engine.CgroupRoot, ipv6 == nil); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.bed.close()) }()
	if err = r.rates(ctx); err == nil {
		err = r.escapes(ctx, enforced(chosen))
	}
	r.result.Finished = time.Now().UTC()
	if ctx.Err() != nil {
		r.result.Stopped = true
		return r.result, nil
	}
	return r.result, err
}

// enforced are the scopes that do something.
func enforced(all []daemon.ScopeStatus) (scopes []policy.Scope) {
	for _, s := range all {
		if s.State == "enforced" && s.Scope.Applies.Kind != policy.Group {
			scopes = append(scopes, s.Scope)
		}
	}
	return scopes
}

// measured is what one test has come to.
type measured struct {
	samples []Sample
	c       circumstances
	skip    Verdict
	reason  string
}

// rates measures all tests, each repetition in an order drawn from the seed.
func (r *runner) rates(ctx context.Context) error {
	all := make([]measured, len(r.tests))
	for i, t := range r.tests {
		all[i].skip, all[i].reason, all[i].c.tighter = t.Skip, t.Reason, t.tighter
	}
	r.left = r.o.Takes(r.tests)
	if err := r.capacities(ctx, all); err != nil {
		return err
	}
	type job struct{ test, repetition int }
	var jobs []job
	for i := range r.tests {
		for n := range r.o.Repetitions {
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
		r.report(fmt.Sprintf("%s %s %s, repetition %d of %d", t.Scope.Name, t.Direction, t.Path, j.repetition, r.o.Repetitions))
		r.repeat(ctx, t, m, j.repetition)
		r.left -= r.o.took(t)
	}
	for i, t := range r.tests {
		r.result.Rates = append(r.result.Rates, all[i].rate(t))
	}
	return err
}

// repeat measures one repetition. What goes wrong is the test's own: the others go on.
func (r *runner) repeat(ctx context.Context, t Test, m *measured, repetition int) {
	at, err := r.routeOf(t)
	var s Sample
	if err == nil {
		s, err = r.measure(ctx, at, flowOf(t), t.Scope.Name, t.Direction, warmup(t.Promise), r.o.Duration)
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

// capacities calibrates every way that tests go, and takes those tests out whose promise it cannot carry.
func (r *runner) capacities(ctx context.Context, all []measured) error {
	highest := map[way]Test{}
	for _, t := range r.tests {
		if w := wayOf(t, r.o.Peer == nil); t.Skip == "" && t.Promise >= highest[w].Promise {
			highest[w] = t
		}
	}
	for i, t := range r.tests {
		w := wayOf(t, r.o.Peer == nil)
		top, wanted := highest[w]
		if !wanted {
			continue
		}
		delete(highest, w)
		r.report(fmt.Sprintf("calibrate %s, %s", t.Path, t.Direction))
		capacity, unknown, err := r.calibrate(ctx, w, top)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if fault.Of(err) == fault.Testbed && r.o.Peer != nil {
				return err // nobody listens at the peer: nothing can be told
			}
			unknown = err.Error()
		}
		for j := i; j < len(r.tests); j++ {
			if other := r.tests[j]; other.Skip == "" && wayOf(other, r.o.Peer == nil) == w {
				r.limitBy(&all[j], other, capacity, unknown)
			}
		}
	}
	return nil
}

func (r *runner) limitBy(m *measured, t Test, capacity units.BitRate, unknown string) {
	m.c.capacity, m.c.unknown = capacity, unknown
	if unknown == "" && float64(capacity) < float64(t.Promise)*(1+above) {
		m.skip, m.reason = CannotSay, fmt.Sprintf("the path carries %s without the limit, and the promise is %s", capacity, t.Promise)
		r.left -= time.Duration(r.o.Repetitions) * r.o.took(t)
	}
}

func (r *runner) report(what string) {
	if r.o.Report != nil {
		r.o.Report(what, r.left)
	}
}

// rate is what a test has come to.
func (m *measured) rate(t Test) Rate {
	out := Rate{Scope: t.Scope.Name, Applies: t.Scope.Applies, Direction: t.Direction.String(), Path: t.Path, Promised: t.Promise,
		Samples: []Sample{}, Capacity: m.c.capacity, Verdict: m.skip, Reason: m.reason}
	if len(m.samples) == 0 {
		if out.Verdict == "" {
			out.Verdict, out.Reason = CannotSay, "stopped before it was measured"
		}
		return out
	}
	out.Samples = m.samples
	out.Measured = stats.Of(values(m.samples))
	out.Share = out.Measured.Mean / float64(t.Promise)
	var delays []float64
	for _, s := range m.samples {
		delays = append(delays, s.Delay.Seconds())
		out.Marked += s.Counters.Marked
		out.Reduced += s.Counters.Reduced
		out.Refused += s.Counters.Refused
	}
	if t.Path.Protocol == "tcp" {
		delay := stats.Of(delays)
		out.ExtraDelay = &delay
	}
	if out.Verdict == "" {
		out.Verdict, out.Reason = judge(t.Promise, m.samples, m.c)
	}
	return out
}
