// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"strings"
	"testing"

	"weir/lab/expect"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/tester/rfc2544"
)

// benchmarked is an outcome of a cell with these throughputs in frame/s; 0 is a rejected
// repetition.
func benchmarked(rates ...float64) *run.Outcome {
	procedure := scenario.Procedure{Name: "dut", Kind: scenario.RFC2544, FrameSize: 64}
	phase := scenario.Phase{Name: "benchmark", Procedure: &procedure}
	cell := &scenario.Cell{Labels: record.Labels{"size": "64"}, Phases: []scenario.Phase{phase}}
	most := 0.1
	outcome := &run.Outcome{Scenario: &scenario.Scenario{
		Parameters: []scenario.Parameter{{Name: "size", Values: []string{"64"}}},
		Expect: []scenario.Expectation{{Name: "they agree", Metric: scenario.ThroughputSpread, Subject: "dut",
			Statement: expect.Statement{Bounds: expect.Bounds{Max: &most}}}},
	}}
	for i, rate := range rates {
		t := rfc2544.ThroughputResult{Size: 64, Rate: rate, Limit: rfc2544.ByDevice, Offers: 4e6, Trials: 9, Rejected: 2, Losses: rfc2544.Losses{Frames: 10, Refused: 9}}
		result := run.Result{Cell: cell, Repetition: i + 1, Attempt: 1, Valid: true}
		p := &run.ProcedureResult{Procedure: procedure, Device: "a router"}
		if rate == 0 {
			t.Reason, p.Problem = "disturbed", "disturbed"
			result.Valid, result.Reasons = false, []string{"disturbed"}
		}
		p.Report.Throughput = []rfc2544.ThroughputResult{t}
		p.Report.Attempts = []rfc2544.Attempt{{Valid: true}, {}, {}}
		result.Phases = []run.PhaseResult{{Phase: phase, Procedure: p}}
		outcome.Results = append(outcome.Results, result)
	}
	return outcome
}

func TestRepetitionsOfABenchmarkAreJudgedByTheirSpread(t *testing.T) {
	for _, test := range []struct {
		rates   []float64
		spread  float64
		outcome record.Outcome
	}{
		{[]float64{1e6, 1.05e6, 1.02e6}, 0.05, record.Holds},
		{[]float64{1e6, 0, 1.2e6}, 0.2, record.Fails}, // rejected repetitions do not count
		{[]float64{1e6}, math.NaN(), record.NotMeasured},
	} {
		b := Bundle(benchmarked(test.rates...), record.Manifest{})
		if got := b.Verdicts[0].Outcome; got != test.outcome {
			t.Errorf("%v: %s, want %s", test.rates, got, test.outcome)
		}
		if says := strings.Contains(b.Tables[1].Note, "differ by more than 10 %, at most by 20 %"); says != (test.outcome == record.Fails) {
			t.Errorf("%v: the note says that the repetitions do not agree: %t", test.rates, says)
		}
		found := math.NaN()
		for _, s := range b.Samples {
			if s.Metric == scenario.ThroughputSpread {
				found = s.Value
			}
		}
		if math.Abs(found-test.spread) > 1e-9 || math.IsNaN(found) != math.IsNaN(test.spread) {
			t.Errorf("%v: spread %g, want %g", test.rates, found, test.spread)
		}
	}
}

func TestABenchmarkSaysWhatLimitedIt(t *testing.T) {
	b := Bundle(benchmarked(1e6, 0), record.Manifest{})
	values := map[string]float64{}
	for _, s := range b.Samples {
		if s.Repetition == 1 {
			values[s.Metric] = s.Value
		}
	}
	for metric, want := range map[string]float64{
		scenario.Throughput: 1e6, scenario.ThroughputBits: 1e6 * 84 * 8, scenario.ThroughputHeadroom: 4, scenario.Trials: 3, scenario.TrialsRejected: 2,
	} {
		if values[metric] != want {
			t.Errorf("%s is %g, want %g", metric, values[metric], want)
		}
	}
	var text []string
	for _, table := range b.Tables {
		text = append(text, table.Title, table.Note)
		for _, row := range table.Rows {
			text = append(text, strings.Join(row, " | "))
		}
	}
	for _, want := range []string{"size=64 | 1 | 1000000 | the device | 2 of 9 | receive ring 90.0 %, elsewhere 10.0 %", "size=64 | 2 | – | disturbed", "a router"} {
		if !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("no %q in\n%s", want, strings.Join(text, "\n"))
		}
	}
}
