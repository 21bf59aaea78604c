// SPDX-License-Identifier: Apache-2.0

// Package lab executes a scenario on emulated links of this machine and returns the evidence.
//
// Each part has a package: scenario reads the file, topology builds namespaces, link carries
// frames, traffic generates load, fidelity judges the testbed, run executes, analysis computes. See
// README.md.
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

// Experiment is a scenario with the choices for its measurement.
type Experiment struct {
	Scenario *scenario.Scenario
	Options  run.Options
	// Command and Parameters go into the manifest: the command line, and the values that differ
	// from the file.
	Command    []string
	Parameters map[string]string
}

// Measure executes the experiment and returns its bundle. With an error the bundle holds everything
// measured before it, and is nil if no run could begin.
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

// Holds returns [ErrVerdict] unless every expectation was measured and holds.
func Holds(b *record.Bundle) error {
	for _, verdict := range b.Verdicts {
		if verdict.Outcome != record.Holds {
			return ErrVerdict
		}
	}
	return nil
}

// ErrVerdict reports an expectation that does not hold or was not measured.
var ErrVerdict = errors.New("a verdict does not hold")
