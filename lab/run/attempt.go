// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/kernel/instance"
	"weir/lab/domain"
	"weir/lab/fastpath"
	"weir/lab/fidelity/witness"
	"weir/lab/limits"
	"weir/lab/link"
	"weir/lab/scenario"
	"weir/lab/topology"
	"weir/lab/traffic"
)

// Bench is a built testbed with active links.
type Bench struct {
	Cell     *scenario.Cell
	Topology *topology.Topology
	Carrying link.Carrying // nil with plain links only
	Limits   *limits.Imposed
	Fast     *fastpath.Paths
	Domain   *domain.Domain

	witness *witness.Witness // nil without the gate of real measurements
}

// Cables returns the emulated links of a cell, still without devices.
func Cables(cell *scenario.Cell) []link.Cable {
	var cables []link.Cable
	for _, l := range cell.Links {
		if !l.Plain {
			cables = append(cables, link.Cable{Name: l.Name, Forward: l.Forward, Reverse: l.Reverse})
		}
	}
	return cables
}

// attempt builds the cell, measures it and removes it. An error ends the execution; a testbed that
// fails the gate is a result that is not valid.
func (e *execution) attempt(ctx context.Context, cell *scenario.Cell, repetition, attempt int) (result *Result, err error) {
	result = &Result{Cell: cell, Repetition: repetition, Attempt: attempt, Began: time.Now()}
	event := Event{Stage: Building, Cell: cell, Repetition: repetition, Attempt: attempt}
	e.progress.tell(event)
	defer func() {
		err = errors.Join(err, e.lab.Clear())
		result.Took = time.Since(result.Began)
	}()
	if result.Reasons, err = e.headroom(ctx, cell); err != nil || len(result.Reasons) > 0 {
		return result, err
	}
	bench, err := Raise(ctx, e.lab, cell, e.options.Carrier)
	if err != nil {
		return result, err
	}
	defer func() { err = result.ended(ctx, errors.Join(err, bench.Close())) }()
	if err := e.beginUnpaced(bench); err != nil {
		return result, err
	}
	if err := e.options.Gate.Begin(bench); err != nil {
		return result, fmt.Errorf("take down the testbed: %w", err)
	}
	event.Stage = Calibrating
	e.progress.tell(event)
	result.Calibrations, err = e.options.Gate.Calibrate(ctx, bench)
	if err != nil {
		return result, fmt.Errorf("calibrate links: %w", err)
	}
	for _, calibration := range result.Calibrations {
		if !calibration.OK() {
			result.Reasons = calibration.Problems
			return result, nil
		}
	}
	if result.Traces, err = e.capture(bench, result); err != nil {
		return result, err
	}
	event.Stage = Loading
	return result, e.load(ctx, bench, result, event)
}

// ended turns the end of a carrier, or a failure in a testbed that was changed from outside, into a
// reason against the run: another attempt may succeed. It returns any other error.
func (r *Result) ended(ctx context.Context, err error) error {
	changed := r.Judgement.Witness != nil && len(r.Judgement.Witness.Reasons) > 0
	switch {
	case err == nil, ctx.Err() != nil, !errors.Is(err, link.ErrBroken) && !changed:
		return err
	case errors.Is(err, link.ErrBroken):
		text := err.Error()
		text, _, _ = strings.Cut(text[strings.Index(text, link.ErrBroken.Error()):], "\n")
		r.Valid, r.Reasons = false, append(r.Reasons, text)
	}
	return nil
}

// Raise builds a cell's topology, starts its links and applies its limits.
func Raise(ctx context.Context, lab *instance.Instance, cell *scenario.Cell, carrier link.Carrier) (*Bench, error) {
	built, err := topology.Build(ctx, lab, cell)
	if err != nil {
		return nil, err
	}
	bench := &Bench{Cell: cell, Topology: built}
	if len(built.Cables) > 0 {
		// Close ends the carrier, in order; the end of ctx does not. It dies with this process in
		// any case.
		bench.Carrying, err = carrier.Carry(context.WithoutCancel(ctx), built.Carrier, built.Cables)
		if err != nil {
			built.Close()
			return nil, fmt.Errorf("carry links: %w", err)
		}
	}
	if err := limits.ImposeClasses(cell, built); err != nil {
		return nil, errors.Join(err, bench.Close())
	}
	if bench.Limits, err = limits.Impose(ctx, lab, cell.Limits, built); err != nil {
		return nil, errors.Join(err, bench.Close())
	}
	if bench.Fast, err = fastpath.Attach(cell, built); err != nil {
		return nil, errors.Join(err, bench.Close())
	}
	if bench.Domain, err = domain.Attach(cell, built); err != nil {
		return nil, errors.Join(err, bench.Close())
	}
	return bench, nil
}

// Close releases the limits, stops the links and closes the handles of the namespaces, which
// remain.
func (b *Bench) Close() error {
	b.witness.Close()
	err := errors.Join(b.Limits.Close(), b.Fast.Close(), b.Domain.Close())
	if b.Carrying != nil {
		err = errors.Join(err, b.Carrying.Close())
	}
	b.Topology.Close()
	return err
}

// load runs the phases under watch and judges the run.
func (e *execution) load(ctx context.Context, bench *Bench, result *Result, event Event) error {
	watch, err := e.options.Gate.Watch(ctx, bench)
	if err != nil {
		return fmt.Errorf("watch testbed: %w", err)
	}
	before, err := bench.counters()
	if err != nil {
		return err
	}
	begin := time.Now()
	settled := func() error { return nil }
	for i, phase := range bench.Cell.Phases {
		event.Phase = phase.Name
		e.progress.tell(event)
		ready := bench.prepare(ctx, phase, e.options.Generator)
		if err := bench.drain(ctx); err != nil {
			ready.close()
			return err
		}
		if i == 0 {
			if err := bench.begin(); err != nil {
				ready.close()
				return err
			}
			begin, settled = time.Now(), settleAfter(bench.Cell, watch)
		}
		if err := bench.Domain.Begin(); err != nil {
			ready.close()
			return err
		}
		done := e.disturb(ctx, bench)
		measured, err := countedPhase(ctx, bench, ready, e.options.Generator)
		done()
		ready.close()
		if err != nil {
			return err
		}
		measured.Began = time.Since(begin) - phase.Duration
		if measured.Domain, err = bench.collected(ctx); err != nil {
			return err
		}
		result.Phases = append(result.Phases, measured)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	result.Judgement, err = watch.Judge(ctx, result.Phases)
	result.Reasons = slices.Concat(result.Judgement.Reasons, problems(result.Phases))
	if err = errors.Join(settled(), err); err != nil {
		return fmt.Errorf("judge run: %w", err)
	}
	after, err := bench.counters()
	if err != nil {
		return err
	}
	result.Links = link.Difference(after, before)
	e.noteMissing(result)
	if gauging, able := bench.Carrying.(link.Gauging); able {
		if result.Depths, err = gauging.Depths(); err != nil {
			return err
		}
	}
	result.Valid = result.Judgement.Valid && len(result.Reasons) == 0
	return nil
}

// settleAfter reports the end of the first phase's settle time to the watch. The returned function
// waits for it and returns its error.
func settleAfter(cell *scenario.Cell, watch Watch) func() error {
	if len(cell.Phases) == 0 || cell.Phases[0].Settle == 0 {
		return func() error { return nil }
	}
	failed := make(chan error, 1)
	timer := time.AfterFunc(cell.Phases[0].Settle, func() { failed <- watch.Settled() })
	return func() error {
		if timer.Stop() {
			return nil // the phase broke off before
		}
		return <-failed
	}
}

// begin starts the links' schedules and series.
func (b *Bench) begin() error {
	if b.Carrying == nil {
		return nil
	}
	return b.Carrying.Begin()
}

func (b *Bench) counters() ([]link.Status, error) {
	if b.Carrying == nil {
		return nil, nil
	}
	status, err := b.Carrying.Status()
	if err != nil {
		return nil, fmt.Errorf("read the links' counters: %w", err)
	}
	return status, nil
}

// problems returns the reasons that make the traffic generators' reports unusable.
func problems(phases []PhaseResult) []string {
	var found []string
	for _, phase := range phases {
		for _, flow := range phase.Flows {
			if flow.Failed != "" {
				found = append(found, fmt.Sprintf("flow %s broke off: %s", flow.Flow.Name, flow.Failed))
			}
			found = append(found, late(flow.Flow.Name, flow.Transfers)...)
		}
		if p := phase.Procedure; p != nil && p.Problem != "" {
			found = append(found, fmt.Sprintf("procedure %s: %s", p.Procedure.Name, p.Problem))
		}
		for _, stream := range phase.Streams {
			if stream.Problem != "" {
				found = append(found, fmt.Sprintf("stream %s: %s", stream.Stream.Name, stream.Problem))
			}
		}
	}
	return found
}

// late reports transfers that started too late: their times would belong to another load.
func late(flow string, transfers []traffic.Transfer) []string {
	var worst time.Duration
	for _, t := range transfers {
		worst = max(worst, t.Begun-t.Due)
	}
	if worst <= traffic.MaxLate {
		return nil
	}
	return []string{fmt.Sprintf("flow %s: a transfer began %s late; %s are tolerated", flow, worst.Round(time.Millisecond), traffic.MaxLate)}
}
