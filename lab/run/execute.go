// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/internal/wait"
	"weir/kernel/instance"
	"weir/lab/scenario"
)

// Execute runs all cells of a scenario. When ctx ends, it removes the testbed and returns the
// results so far with Stopped set and no error. A cell that this machine cannot carry ends it with
// the results so far and an error of fault.Testbed.
func Execute(ctx context.Context, s *scenario.Scenario, options Options) (*Outcome, error) {
	lab, err := instance.New(s.Name, instance.Run)
	if err != nil {
		return nil, err
	}
	e := &execution{scenario: s, options: options, lab: lab, progress: progress{report: options.Report}}
	e.outcome = &Outcome{Scenario: s, Mechanisms: map[string]string{
		"link": options.Carrier.Mechanism(), "traffic": options.Generator.Name(),
	}}
	if options.CarrierReason != "" {
		e.outcome.Mechanisms["link"] += " (" + options.CarrierReason + ")"
	}
	err = e.inTurn(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		e.outcome.Stopped, err = true, nil
	}
	return e.outcome, errors.Join(err, lab.Close())
}

const tryDoctor = "see weir doctor for the features of this kernel"

// check rejects options and cells that cannot work before anything is built.
func check(cells []scenario.Cell, options Options) error {
	for i := range cells {
		cell := &cells[i]
		for _, cable := range Cables(cell) {
			if err := options.Carrier.Check(cable); err != nil {
				return fault.Wrap(fmt.Errorf("link %s: %w", cable.Name, err), fault.Testbed, tryDoctor)
			}
		}
		for _, phase := range cell.Phases {
			for _, flow := range phase.Flows {
				if err := options.Generator.Check(flow); err != nil {
					return fault.Wrap(fmt.Errorf("flow %s: %w", flow.Name, err), fault.Testbed, tryDoctor)
				}
			}
		}
	}
	return nil
}

// execution is the state of one Execute.
type execution struct {
	scenario *scenario.Scenario
	options  Options
	lab      *instance.Instance
	outcome  *Outcome
	progress progress
	carried  map[way]bool // paths measured to carry more than the limit on them
	started  time.Time
}

func (e *execution) now() time.Time {
	if e.options.clock != nil {
		return e.options.clock()
	}
	return time.Now()
}

// over reports whether the scenario's time limit has passed.
func (e *execution) over() bool {
	return e.scenario.TimeLimit > 0 && e.now().Sub(e.started) >= e.scenario.TimeLimit
}

// inTurn waits for its turn and runs the scenario.
func (e *execution) inTurn(ctx context.Context) error {
	if !e.options.Share {
		release, err := lockMachine(ctx, func() { e.progress.tell(Event{Stage: Waiting}) })
		if err != nil {
			return err
		}
		defer release()
	}
	e.started = e.now()
	cells, err := e.scenario.Expand()
	if err != nil {
		return err
	}
	remove, err := e.installControls(cells)
	if err == nil {
		err = e.measure(ctx, cells)
	}
	return errors.Join(err, remove())
}

// measure runs the cells, or those of the first value of the fallback parameter that the machine
// carries.
func (e *execution) measure(ctx context.Context, cells []scenario.Cell) error {
	if e.scenario.Fallback != nil {
		return e.fallback(ctx)
	}
	return errors.Join(e.all(ctx, cells), e.unfit(ctx))
}

// all runs every repetition of the cells and of their solo runs. Cells that the machine did not
// carry are in outcome.Unfit; they end the execution unless KeepGoing, or the value of the fallback
// parameter is final. After the time limit no further run starts.
func (e *execution) all(ctx context.Context, cells []scenario.Cell) error {
	cells, err := e.available(cells)
	if err != nil {
		return err
	}
	if err := check(cells, e.options); err != nil {
		return err
	}
	runs := withSolos(cells)
	e.outcome.Cells = runs[:len(cells):len(cells)]
	jobs := order(len(runs), e.scenario.Repetitions, e.options.Seed)
	e.progress.begin(runs, jobs)
	unfit, measured := map[int]bool{}, map[int]bool{}
	for n, j := range jobs {
		cell := &runs[j.cell]
		if e.over() {
			e.note("the time limit of %s ended the study after %d of %d runs", e.scenario.TimeLimit, n, len(jobs))
			return e.unmeasured(runs, measured)
		}
		if !unfit[j.cell] {
			err := e.repeat(ctx, cell, j, e.scenario.Attempts)
			var cannot *Unfit
			switch {
			case errors.As(err, &cannot):
				unfit[j.cell] = true
				e.outcome.Unfit = append(e.outcome.Unfit, *cannot)
				if !e.options.KeepGoing && !e.final() {
					return nil
				}
			case err != nil:
				return err
			default:
				measured[j.cell] = true
			}
		}
		e.progress.finished(cell)
	}
	return nil
}

// unmeasured returns an error if a cell has no valid run at the time limit.
func (e *execution) unmeasured(runs []scenario.Cell, measured map[int]bool) error {
	for i := range runs {
		if !measured[i] {
			return fault.New(fault.Testbed, "free the machine's CPUs, lower the rates, or raise time_limit in a copy of the file",
				"the time limit of %s ended the study before a valid run of %s", e.scenario.TimeLimit, CellName(&runs[i]))
		}
	}
	return nil
}

// unfit returns the error of the cells that the machine did not carry, if any, with the rate that
// it does carry.
func (e *execution) unfit(ctx context.Context) error {
	if len(e.outcome.Unfit) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	first := &e.outcome.Unfit[0]
	try := "free the machine's CPUs, lower the rates with --set or in a copy of the file, or go on without it: --keep-going"
	if first.lacksProgram() {
		return fault.Wrap(first, fault.Testbed, "install the program: 127 is the status of a shell that does not find one")
	}
	if e.over() {
		return fault.Wrap(first, fault.Testbed, try)
	}
	e.progress.tell(Event{Stage: Measuring, Cell: first.Cell})
	advice, err := e.options.Gate.Capacity(ctx, e.options.Carrier, first.Cell)
	if err != nil {
		return errors.Join(first, err)
	}
	if advice != "" {
		e.note("%s", advice)
		try = advice + "; " + try
	}
	return fault.Wrap(first, fault.Testbed, try)
}

// repeat measures one repetition of a cell, with a maximum number of attempts.
func (e *execution) repeat(ctx context.Context, cell *scenario.Cell, j job, attempts int) error {
	var reasons []string
	for attempt := 1; attempt <= max(1, attempts) && (attempt == 1 || !e.over()); attempt++ {
		_ = wait.For(ctx, time.Duration(attempt-1)*e.options.Patience)
		result, err := e.attempt(ctx, seeded(cell, e.options.Seed, j, attempt), j.repetition, attempt)
		if err != nil {
			return err
		}
		result.Cell = cell
		e.outcome.Results = append(e.outcome.Results, *result)
		e.progress.attempted(result)
		event := Event{Stage: Valid, Cell: cell, Repetition: j.repetition, Attempt: attempt}
		if result.Valid {
			e.progress.tell(event)
			return nil
		}
		event.Stage, event.Reason = Invalid, result.headline()
		e.progress.tell(event)
		reasons = append(reasons, result.headline())
	}
	return &Unfit{Cell: cell, Repetition: j.repetition, Reasons: reasons}
}
