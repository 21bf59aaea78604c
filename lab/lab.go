// SPDX-License-Identifier: Apache-2.0

// Package lab measures: it executes a scenario on emulated links of this machine and returns the
// evidence.
//
// The parts live in rooms of their own: scenario reads the file, topology builds namespaces, link
// carries frames, traffic loads them, fidelity judges the testbed, run executes, analysis computes.
// See README.md.
package lab

import (
	"context"
	"errors"
	"maps"
	"time"

	"weir/internal/version"
	"weir/lab/analysis"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/machine"
)

// Experiment is a scenario and how it is to be measured.
type Experiment struct {
	Scenario *scenario.Scenario
	Options  run.Options
	// Command and Parameters go into the manifest: what was typed, and what was set or chosen
	// differently from the file.
	Command    []string
	Parameters map[string]string
}

// Measure executes the experiment and returns what it measured as a bundle. With an error the
// bundle still holds what was measured until then, and is nil if nothing could begin.
func (e Experiment) Measure(ctx context.Context) (*record.Bundle, error) {
	manifest := record.Manifest{
		Kind: "lab", Name: e.Scenario.Name, Version: version.String(), Command: e.Command, Started: time.Now(),
		Machine: machine.Describe(), Seed: e.Options.Seed, Parameters: maps.Clone(e.Parameters), Source: e.Scenario.Source,
	}
	outcome, err := run.Execute(ctx, e.Scenario, e.Options)
	if outcome == nil || (err != nil && len(outcome.Results) == 0) {
		return nil, err
	}
	manifest.Finished = time.Now()
	if len(outcome.Chosen) > 0 && manifest.Parameters == nil {
		manifest.Parameters = map[string]string{}
	}
	maps.Copy(manifest.Parameters, outcome.Chosen)
	return analysis.Bundle(outcome, manifest), err
}

// Holds says whether every expectation was measured and holds.
func Holds(b *record.Bundle) error {
	for _, verdict := range b.Verdicts {
		if verdict.Outcome != record.Holds {
			return ErrVerdict
		}
	}
	return nil
}

// ErrVerdict says that an expectation does not hold or could not be measured.
var ErrVerdict = errors.New("a verdict does not hold")
