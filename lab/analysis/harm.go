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

// isSolo says whether labels are of a run of one flow alone. No mean, figure or verdict of flows
// together has such a row.
func isSolo(labels record.Labels) bool { return labels[scenario.SoloLabel] != "" }

// together are the rows of flows together.
func together(rows []summary.Row) []summary.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(row summary.Row) bool { return isSolo(row.Labels) })
}

// pair identifies a run of a flow alone: what was varied, the flow's name included, and the
// repetition.
type pair struct {
	key        summary.Key
	repetition int
}

// harmSamples compare each flow's goodput with that of the same repetition's run of it alone. Both
// belong to one block of the random order, so that what drifts on the machine over a study hits
// both. There is none where either is not valid.
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

// harmTable shows every flow's goodput alone and together. It takes all rows, those of flows alone
// included.
func harmTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	labels := labelNames(outcome.Scenario, together(rows))
	t := record.Table{Title: "Harm", Columns: append(slices.Clone(labels), "flow", "alone", "together", "harm", "95 % interval", "n"),
		Note: "Harm is the part of its goodput alone that a flow loses to the others: mean of (alone - together) / alone\n" +
			"over the repetitions, each with a run of its own of the flow alone. n: such pairs."}
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
