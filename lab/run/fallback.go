// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/lab/scenario"
)

// trialTime bounds each phase of a trial.
const trialTime = 3 * time.Second

// fallback runs the scenario with the first value of its fallback parameter that this machine
// carries. Short runs of the first and the last cell, which do not count, test a value. If a value
// fails later, in a run that would have counted, its runs are discarded and the next value is
// tested. After the time of Fallback.Within the value is final.
func (e *execution) fallback(ctx context.Context) error {
	name, values := e.scenario.Fallback.Parameter, slices.Clone(e.scenario.Fallback.Values)
	for i, value := range values {
		cells, err := e.scenario.ExpandWith(value)
		if err != nil {
			return err
		}
		last := i == len(values)-1
		if !last {
			if err := check(cells, e.options); err != nil {
				return err
			}
			if e.final() {
				e.note("%s=%s was not tried, because the choice may take %s", name, value, e.scenario.Fallback.Within)
				continue
			}
			reason, err := e.tryBoth(ctx, cells, name+"="+value)
			if err != nil {
				return err
			}
			if reason != "" {
				e.note("%s=%s does not hold on this machine: %s", name, value, reason)
				continue
			}
		}
		e.outcome.Chosen = map[string]string{name: value}
		e.progress.tell(Event{Stage: Chosen, Reason: name + "=" + value})
		err = e.all(ctx, cells)
		if err != nil || last || len(e.outcome.Unfit) == 0 || e.final() {
			return errors.Join(err, e.unfit(ctx))
		}
		cannot := &e.outcome.Unfit[0]
		e.note("%s=%s was given up after %d runs: %s", name, value, len(e.outcome.Results), cannot)
		e.outcome.Results, e.outcome.Unfit = nil, nil
	}
	return nil
}

// final reports whether the time for the choice of the value has passed.
func (e *execution) final() bool {
	f := e.scenario.Fallback
	return f != nil && f.Within > 0 && e.now().Sub(e.started) >= f.Within
}

func (e *execution) note(format string, args ...any) {
	e.outcome.Notes = append(e.outcome.Notes, fmt.Sprintf(format, args...))
}

// tryBoth tries the two ends of the sweep, which differ in every parameter.
func (e *execution) tryBoth(ctx context.Context, cells []scenario.Cell, what string) (reason string, err error) {
	reason, err = e.try(ctx, &cells[0], what)
	if reason != "" || err != nil || len(cells) == 1 {
		return reason, err
	}
	return e.try(ctx, &cells[len(cells)-1], what)
}

// try measures a shortened run of the cell, twice if need be, and returns why it was not valid.
func (e *execution) try(ctx context.Context, cell *scenario.Cell, what string) (reason string, err error) {
	short := shortened(cell)
	for attempt := 1; attempt <= 2; attempt++ {
		e.progress.tell(Event{Stage: Trying, Cell: cell, Reason: what})
		result, err := e.attempt(ctx, seeded(short, e.options.Seed, job{}, attempt), 0, attempt)
		if err != nil {
			return "", err
		}
		if result.Valid {
			return "", nil
		}
		reason = result.headline()
	}
	return reason, nil
}

// shortened is the cell with phases and flows of trialTime at most.
func shortened(cell *scenario.Cell) *scenario.Cell {
	short := *cell
	short.Phases = slices.Clone(cell.Phases)
	for i := range short.Phases {
		phase := &short.Phases[i]
		phase.Duration = min(phase.Duration, trialTime)
		phase.Flows = slices.Clone(phase.Flows)
		for j := range phase.Flows {
			flow := &phase.Flows[j]
			flow.Start = min(flow.Start, phase.Duration/2)
			flow.Duration = min(flow.Duration, phase.Duration-flow.Start)
			if flow.Load != nil {
				load := *flow.Load
				load.Drain = min(load.Drain, flow.Duration/2)
				flow.Load = &load
			}
		}
		phase.Streams = nil
	}
	return &short
}
