// SPDX-License-Identifier: Apache-2.0

// Package analysis computes the evidence bundle of a scenario's runs: samples, series,
// distributions, verdicts, tables and figures.
//
// scenario.Metrics defines the name, unit and meaning of every metric. Goodput and round-trip times
// exclude the phase's settle time if the generator has samples for it. Retransmissions and loss
// events are counted over the whole flow, because no generator reports them per interval.
//
// One verdict rule holds for all expectations: the mean of all valid repetitions decides. If the 95
// % interval reaches across a bound, the verdict adds that more repetitions are needed.
package analysis

import (
	"maps"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/summary"
)

// Bundle computes everything from an outcome, and adds facts of the outcome to the caller's
// manifest.
func Bundle(outcome *run.Outcome, manifest record.Manifest) *record.Bundle {
	b := &record.Bundle{Manifest: manifest}
	for i := range outcome.Results {
		addResult(b, &outcome.Results[i])
	}
	for _, result := range representatives(outcome) {
		addSeries(b, result)
		addDepths(b, result)
	}
	b.Samples = append(b.Samples, harmSamples(outcome)...)
	b.Samples = append(b.Samples, spreadSamples(outcome)...)
	measured := summary.Rows(b.Samples)
	rows := together(measured)
	b.Verdicts = verdicts(outcome.Scenario, rows)
	b.Tables = append(procedureTables(outcome, rows), tables(outcome, rows, measured)...)
	b.Figures = figures(outcome, rows, b)
	b.Proofs = proofs(outcome)
	b.Attachments = append(outputs(outcome), traces(outcome)...)
	b.Manifest.Stopped = outcome.Stopped
	b.Manifest.Notes = append(b.Manifest.Notes, notes(outcome)...)
	b.Manifest.Mechanisms = maps.Clone(outcome.Mechanisms)
	return b
}

// attempt holds run-wide facts of one attempt. Every sample of the attempt carries them.
type attempt struct {
	result *run.Result
	labels record.Labels
}

func (a attempt) sample(subject, metric string, value float64) record.Sample {
	known, _, _ := scenario.FindMetric(metric)
	return record.Sample{
		Labels: a.labels, Subject: subject, Metric: metric, Unit: known.Unit, Value: value,
		Repetition: a.result.Repetition, Attempt: a.result.Attempt, Valid: a.result.Valid, Reason: a.result.Reason(),
	}
}

// addResult adds the samples of one attempt, and its distributions unless a flow ran alone. An
// attempt that ended before its traffic has no samples.
func addResult(b *record.Bundle, result *run.Result) {
	for _, phase := range result.Phases {
		a := attempt{result: result, labels: result.Cell.PhaseLabels(phase.Phase.Name)}
		b.Samples = append(b.Samples, flowSamples(a, phase)...)
		b.Samples = append(b.Samples, streamSamples(a, phase)...)
		b.Samples = append(b.Samples, procedureSamples(a, phase)...)
		b.Samples = append(b.Samples, limitSamples(a, phase)...)
		b.Samples = append(b.Samples, domainSamples(a, phase)...)
		if result.Cell.Alone() == "" {
			b.Distributions = append(b.Distributions, distributions(a, phase)...)
			b.Distributions = append(b.Distributions, procedureDistributions(a, phase)...)
		}
	}
	b.Samples = append(b.Samples, linkSamples(attempt{result: result, labels: result.Cell.Labels}, result.Links)...)
}
