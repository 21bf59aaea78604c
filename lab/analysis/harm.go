// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"slices"
	"strconv"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/stats"
	"weir/record/summary"
)

// isSolo reports whether labels belong to a run of one flow alone. Means, figures and verdicts of
// flows that ran together exclude such rows.
func isSolo(labels record.Labels) bool { return labels[scenario.SoloLabel] != "" }

// together returns the rows of flows that ran together.
func together(rows []summary.Row) []summary.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row summary.Row) bool { return isSolo(row.Labels) })
}

// pair identifies a run of a flow alone: the cell, the flow's name, and the repetition.
type pair struct {
	key        summary.Key
	repetition int
}

// harmSamples divides each flow's goodput by its goodput alone in the same repetition. Both runs
// belong to one block of the random order, so drift of the machine affects both alike. If either
// run is not valid, there is no sample.
func harmSamples(outcome *run.Outcome) []record.Sample {
	alone := map[pair]float64{}
	each(outcome, func(a attempt, f flow) {
		if isSolo(a.labels) {
			alone[pairOf(a, a.labels, f)] = f.goodput
		}
	})
	var samples []record.Sample
	each(outcome, func(a attempt, f flow) {
		if isSolo(a.labels) {
			return
		}
		labels := maps.Clone(a.labels)
		labels[scenario.SoloLabel] = f.result.Flow.Name
		if solo, measured := alone[pairOf(a, labels, f)]; measured && solo > 0 {
			samples = append(samples, a.sample(f.result.Flow.Name, scenario.Harm, stats.Harm(solo, f.goodput)))
		}
	})
	return samples
}

func pairOf(a attempt, labels record.Labels, f flow) pair {
	return pair{summary.KeyOf(labels, f.result.Flow.Name, scenario.Goodput, record.BitPerSecond), a.result.Repetition}
}

// each visits the flows of all valid runs.
func each(outcome *run.Outcome, visit func(attempt, flow)) {
	for i := range outcome.Results {
		result := &outcome.Results[i]
		if !result.Valid {
			continue
		}
		for _, phase := range result.Phases {
			a := attempt{result: result, labels: result.Cell.PhaseLabels(phase.Phase.Name)}
			for j := range phase.Flows {
				visit(a, flowOf(&phase.Flows[j], phase.Phase.Settle))
			}
		}
	}
}

// harmTable shows every flow's goodput alone and together. It expects all rows, including those of
// flows alone.
func harmTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	labels := labelNames(outcome.Scenario, together(rows))
	t := record.Table{Title: "Harm", Columns: append(slices.Clone(labels), "flow", "alone", "together", "harm", "95 % interval", "n"),
		Note: "Harm is the relative loss of a flow's goodput: the mean of (alone - together) / alone over the repetitions.\n" +
			"Each repetition includes a run of the flow alone. n: number of these pairs of runs."}
	for _, row := range rows {
		if row.Metric != scenario.Harm {
			continue
		}
		cells := []string{}
		for _, name := range labels {
			cells = append(cells, row.Labels[name])
		}
		own := maps.Clone(row.Labels)
		own[scenario.SoloLabel] = row.Subject
		mean, interval := summary.Cells(scaled(row.Estimate, 100), percent)
		t.Rows = append(t.Rows, append(cells, row.Subject, goodputOf(rows, own, row.Subject), goodputOf(rows, row.Labels, row.Subject),
			mean, interval, strconv.Itoa(row.Estimate.N)))
	}
	return t, len(t.Rows) > 0
}

func goodputOf(rows []summary.Row, labels record.Labels, flow string) string {
	row, _ := summary.Find(rows, labels, flow, scenario.Goodput)
	mean, _ := summary.Cells(row.Estimate, record.BitPerSecond)
	return mean
}
