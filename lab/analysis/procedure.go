// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/stats"
	"weir/record/summary"
	"weir/tester"
	"weir/tester/rfc2544"
)

// procedureSamples returns the figures of a phase's benchmark.
func procedureSamples(a attempt, phase run.PhaseResult) []record.Sample {
	p := phase.Procedure
	if p == nil {
		return nil
	}
	var samples []record.Sample
	add := func(metric string, value float64) {
		samples = append(samples, a.sample(p.Procedure.Name, metric, value))
	}
	rejected := 0
	for _, attempt := range p.Report.Attempts {
		if !attempt.Valid {
			rejected++
		}
	}
	add(scenario.Trials, float64(len(p.Report.Attempts)))
	add(scenario.TrialsRejected, float64(rejected))
	if t, measured := p.Throughput(); measured {
		add(scenario.Throughput, t.Rate)
		add(scenario.ThroughputBits, t.Rate*float64(t.Size+tester.WireOverhead)*8)
		if t.Rate > 0 {
			add(scenario.ThroughputHeadroom, t.Offers/t.Rate)
		}
	}
	for _, l := range p.Report.Latency {
		if l.Reason == "" {
			add(scenario.DeviceLatency, l.Estimate().Mean)
			add(scenario.DeviceLatencyP99, seconds(l.Delays.Quantile(0.99)))
		}
	}
	for _, l := range p.Report.FrameLoss {
		if i := slices.IndexFunc(l.Points, func(point rfc2544.LossPoint) bool { return point.Reason == "" }); i >= 0 {
			add(scenario.LossAtMaximum, l.Points[i].Loss)
		}
	}
	for _, v := range p.Report.BackToBack {
		if v.Reason == "" && len(v.Lengths) > 0 {
			add(scenario.BackToBack, stats.Of(v.Lengths).Mean)
		}
	}
	return samples
}

// spreadSamples returns for every cell the spread of the repetitions' throughputs: one figure for
// all repetitions.
func spreadSamples(outcome *run.Outcome) []record.Sample {
	type cell struct {
		first attempt
		name  string
		rates []float64
	}
	var cells []*cell
	found := map[summary.Key]*cell{}
	eachProcedure(outcome, func(a attempt, p *run.ProcedureResult) {
		t, measured := p.Throughput()
		if !a.result.Valid || !measured || t.Rate <= 0 {
			return
		}
		key := summary.KeyOf(a.labels, p.Procedure.Name, scenario.ThroughputSpread, record.Share)
		if found[key] == nil {
			found[key] = &cell{first: a, name: p.Procedure.Name}
			cells = append(cells, found[key])
		}
		found[key].rates = append(found[key].rates, t.Rate)
	})
	var samples []record.Sample
	for _, c := range cells {
		if len(c.rates) > 1 {
			samples = append(samples, c.first.sample(c.name, scenario.ThroughputSpread, slices.Max(c.rates)/slices.Min(c.rates)-1))
		}
	}
	return samples
}

// eachProcedure visits the benchmarks of all runs.
func eachProcedure(outcome *run.Outcome, visit func(attempt, *run.ProcedureResult)) {
	for i := range outcome.Results {
		result := &outcome.Results[i]
		for _, phase := range result.Phases {
			if phase.Procedure != nil {
				visit(attempt{result: result, labels: result.Cell.PhaseLabels(phase.Phase.Name)}, phase.Procedure)
			}
		}
	}
}

// procedureDistributions returns the latencies of a benchmark.
func procedureDistributions(a attempt, phase run.PhaseResult) []record.Distribution {
	if phase.Procedure == nil {
		return nil
	}
	var found []record.Distribution
	for _, l := range phase.Procedure.Report.Latency {
		if l.Reason == "" && l.Delays.Count() > 0 {
			found = append(found, record.Distribution{
				Labels: a.labels, Subject: phase.Procedure.Procedure.Name, Metric: scenario.DeviceLatency, Unit: record.Seconds,
				Repetition: a.result.Repetition, Attempt: a.result.Attempt, Valid: a.result.Valid, Histogram: l.Delays,
			})
		}
	}
	return found
}

var procedureColumns = []column{
	{"throughput", scenario.Throughput, true, false},
	{"spread", scenario.ThroughputSpread, false, true},
	{"on the wire", scenario.ThroughputBits, false, false},
	{"tester / device", scenario.ThroughputHeadroom, false, false},
	{"latency", scenario.DeviceLatency, true, false},
	{"p99", scenario.DeviceLatencyP99, false, false},
	{"lost at maximum", scenario.LossAtMaximum, false, true},
	{"back-to-back", scenario.BackToBack, true, false},
	{"trials", scenario.Trials, false, false},
	{"rejected trials", scenario.TrialsRejected, false, false},
}

// procedureTables shows the figures of the benchmarks and the limiting factor that each found.
func procedureTables(outcome *run.Outcome, rows []summary.Row) []record.Table {
	t := grid(outcome, rows, procedureColumns)
	if len(t.Rows) == 0 {
		return nil
	}
	t.Title = "RFC 2544 benchmark of the network between the hosts"
	t.Note = "Mean of the valid runs [95 % interval]; spread: highest / lowest throughput of the repetitions, minus 1. " +
		"Virtual links copy no payload: compare frames per second, not bits."
	bound := boundTable(outcome)
	bound.Note += unsteady(rows)
	return []record.Table{t, bound}
}

// agreeing is the maximum spread of the repetitions' throughputs for which one figure may stand for
// them.
const agreeing = 0.1

// unsteady returns the reason that the testbed cannot give one figure, or "" if the repetitions
// agree.
func unsteady(rows []summary.Row) string {
	var cells, apart int
	var worst float64
	for _, row := range rows {
		if row.Metric != scenario.ThroughputSpread || row.Estimate.N == 0 {
			continue
		}
		cells++
		if row.Estimate.Mean > agreeing {
			apart++
			worst = max(worst, row.Estimate.Mean)
		}
	}
	if apart == 0 {
		return ""
	}
	return fmt.Sprintf("\nIn %d of %d cells the repetitions differ by more than %s, at most by %s: this testbed gives no single value there. "+
		"If\nthe device's receive ring lost all frames, the interruption of its CPU was too short to reject the trial, but\n"+
		"longer than the ring can buffer. Free the CPUs, or use a machine without other load.",
		apart, cells, percent.Format(100*agreeing), percent.Format(math.Round(100*worst)))
}

// boundTable shows the limiting factor of every run's throughput.
func boundTable(outcome *run.Outcome) record.Table {
	t := record.Table{Title: "Limiting factor of the throughput", Columns: []string{"run", "repetition", "frame/s", "limited by", "trials rejected", "where frames were lost"}}
	device := ""
	eachProcedure(outcome, func(a attempt, p *run.ProcedureResult) {
		row := []string{run.CellName(a.result.Cell), strconv.Itoa(a.result.Repetition), "–", p.Problem, "–", "–"}
		if device = p.Device; device == "" {
			device = "not known"
		}
		if result, measured := p.Throughput(); measured {
			row[2], row[3] = strconv.FormatFloat(result.Rate, 'f', 0, 64), "the "+string(result.Limit)
			row[4] = strconv.Itoa(result.Rejected) + " of " + strconv.Itoa(result.Trials)
			row[5] = result.Losses.String()
		}
		t.Rows = append(t.Rows, row)
	})
	t.Note = "Device under test: " + device + "."
	return t
}
