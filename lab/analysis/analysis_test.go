// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/units"
	"weir/lab/expect"
	"weir/lab/link"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
	"weir/record/bundle"
	"weir/record/summary"
)

const study = `
version: 1
title: a study
repetitions: 3
sweep:
  loss: ["0%", "1%"]
hosts: [a, b]
links:
  - {name: path, ends: [a, b], rate: 10Mbit, delay: 1ms, loss: "${loss}"}
phases:
  - name: only
    duration: 2s
    settle: 1s
    flows:
      - {name: left, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: right, kind: bulk, from: a, to: b, congestion: bbr}
expect:
  - {name: it falls, metric: goodput, subject: aggregate, where: {loss: 1%}, relative_to: {loss: 0%}, max: 60%}
  - {name: it is fast, metric: goodput, subject: aggregate, where: {loss: 0%}, min: 100Mbit}
published:
  - {source: a talk, metric: goodput, subject: aggregate, where: {loss: 1%}, relative_to: {loss: 0%}, value: 30%}
figures:
  - {name: by-loss, title: By loss, metric: goodput, subject: aggregate, x: loss}
`

// expanded reads a valid scenario and its cells.
func expanded(t *testing.T, text string) (*scenario.Scenario, []scenario.Cell) {
	t.Helper()
	s, err := scenario.Parse("study.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return s, cells
}

// outcome imitates three repetitions of the study: at 0 % loss about 8 Mbit/s after the settle
// time, at 1 % half of it. The left flow has three times the rate of the right one.
func outcome(t *testing.T) *run.Outcome {
	t.Helper()
	s, cells := expanded(t, study)
	o := &run.Outcome{Scenario: s, Cells: cells, Mechanisms: map[string]string{"link": "fake"}}
	for i := range cells {
		for repetition := 1; repetition <= 3; repetition++ {
			perBin := uint64(100_000+1000*repetition) / uint64(1+i)
			o.Results = append(o.Results, run.Result{
				Cell: &cells[i], Repetition: repetition, Attempt: 1, Valid: true,
				Phases: []run.PhaseResult{{Phase: cells[i].Phases[0], Flows: []traffic.Result{
					result(cells[i].Phases[0].Flows[0], perBin*3/4), result(cells[i].Phases[0].Flows[1], perBin/4),
				}}},
				Links: []link.Status{{Cable: "path", Forward: link.Counters{Sent: 990, LossDrops: 10}}},
			})
		}
	}
	return o
}

// result imitates a flow with perBin bytes in each interval after the first second, and ten times
// as many before.
func result(f traffic.Flow, perBin uint64) traffic.Result {
	stream := traffic.Stream{SentSegments: 1000, Retransmits: 20, LossEvents: 10}
	for i := range 20 {
		octets := perBin
		if i < 10 {
			octets *= 10
		}
		stream.Received = append(stream.Received, octets)
		stream.ReceivedBytes += octets
		rtt := 10 * time.Millisecond
		if i < 10 {
			rtt = time.Second
		}
		stream.Readings = append(stream.Readings, traffic.Reading{At: time.Duration(i) * 100 * time.Millisecond, SRTT: rtt, MinRTT: rtt, Cwnd: 10})
	}
	stream.Goodput = units.BitRate(stream.ReceivedBytes * 8 / 2)
	return traffic.Result{Flow: f, Streams: []traffic.Stream{stream}, Goodput: stream.Goodput}
}

func find(t *testing.T, rows []summary.Row, loss, subject, metric string) summary.Row {
	t.Helper()
	row, ok := summary.Find(rows, record.Labels{"loss": loss}, subject, metric)
	if !ok {
		t.Fatalf("no %s of %s at %s", metric, subject, loss)
	}
	return row
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestFiguresLeaveOutTheSettleTime(t *testing.T) {
	b := Bundle(outcome(t), record.Manifest{})
	rows := summary.Rows(b.Samples)
	whole := find(t, rows, "0%", scenario.Aggregate, scenario.Goodput)
	near(t, "goodput", whole.Estimate.Mean, 102_000*8/0.1)
	if whole.Estimate.N != 3 || whole.Unit != record.BitPerSecond {
		t.Errorf("row %+v", whole)
	}
	near(t, "goodput of left", find(t, rows, "0%", "left", scenario.Goodput).Estimate.Mean, 76_500*8/0.1)
	near(t, "share of left", find(t, rows, "0%", "left", scenario.FlowShare).Values[0], 0.75)
	if _, found := summary.Find(rows, record.Labels{"loss": "0%"}, "right", scenario.Harm); found {
		t.Error("harm without a run of the flow alone")
	}
	near(t, "Jain", find(t, rows, "0%", scenario.Aggregate, scenario.JainIndex).Values[0], 0.8)
	near(t, "RTT", find(t, rows, "0%", "left", scenario.SRTTMean).Estimate.Mean, 0.010)
	near(t, "loss events", find(t, rows, "0%", "left", scenario.LossEventRate).Estimate.Mean, 0.01)
	near(t, "link loss", find(t, rows, "1%", "path forward", scenario.LinkLoss).Estimate.Mean, 0.01)
	near(t, "Mathis", find(t, rows, "0%", "left", scenario.PredictedMathis).Estimate.Mean, 1448*8*math.Sqrt(1.5)/(0.010*0.1))
	if _, found := summary.Find(rows, record.Labels{"loss": "0%"}, "right", scenario.PredictedMathis); found {
		t.Error("BBR has a prediction of equations for loss-based senders")
	}
	for _, s := range b.Samples {
		if known, ok, _ := scenario.FindMetric(s.Metric); !ok || known.Unit != s.Unit {
			t.Errorf("sample %s has the unit %q; the metric's is %q", s.Metric, s.Unit, known.Unit)
		}
	}
}

func TestInvalidRunsNeverEnterAnAverage(t *testing.T) {
	o := outcome(t)
	o.Results[0].Valid, o.Results[0].Reasons = false, []string{"a disturbance", "another"}
	b := Bundle(o, record.Manifest{})
	row := find(t, summary.Rows(b.Samples), "0%", scenario.Aggregate, scenario.Goodput)
	near(t, "mean of the two valid runs", row.Estimate.Mean, 102_500*8/0.1)
	if row.Estimate.N != 2 || row.Invalid != 1 {
		t.Errorf("%d valid, %d invalid", row.Estimate.N, row.Invalid)
	}
	i := slices.IndexFunc(b.Tables, func(t record.Table) bool { return t.Title == "Rejected runs" })
	if i < 0 || b.Tables[i].Rows[0][3] != "a disturbance; another" {
		t.Errorf("tables %+v", b.Tables)
	}
	for _, d := range b.Distributions {
		if d.Repetition == 1 && d.Labels["loss"] == "0%" && d.Valid {
			t.Error("a distribution of the rejected run counts")
		}
	}
}

func TestVerdicts(t *testing.T) {
	b := Bundle(outcome(t), record.Manifest{})
	if len(b.Verdicts) != 2 {
		t.Fatalf("%d verdicts", len(b.Verdicts))
	}
	falls, fast := b.Verdicts[0], b.Verdicts[1]
	if falls.Outcome != record.Holds || !strings.Contains(falls.Measured, "0.5 (95 %:") || falls.Reason != "" {
		t.Errorf("%+v", falls)
	}
	if fast.Outcome != record.Fails || !strings.HasPrefix(fast.Measured, "8.16 Mbit/s (95 %: ") {
		t.Errorf("%+v", fast)
	}
	o := outcome(t)
	for i := range o.Results {
		o.Results[i].Valid = o.Results[i].Cell.Labels["loss"] != "0%"
	}
	for _, v := range Bundle(o, record.Manifest{}).Verdicts {
		if v.Outcome != record.NotMeasured || v.Reason == "" {
			t.Errorf("without valid runs: %+v", v)
		}
	}
}

// TestTheMeanDecides: an interval that reaches across the bound is reported, and does not change
// the verdict.
func TestTheMeanDecides(t *testing.T) {
	bound := 100.0
	e := scenario.Expectation{Name: "x", Metric: scenario.Goodput, Statement: expect.Statement{Bounds: expect.Bounds{Min: &bound}}}
	for _, test := range []struct {
		values  []float64
		outcome record.Outcome
		reason  string
	}{
		{[]float64{110, 111, 112}, record.Holds, ""},
		{[]float64{99, 130, 160}, record.Holds, "more repetitions"},
		{[]float64{70, 90, 120}, record.Fails, "more repetitions"},
		{[]float64{10, 11, 12}, record.Fails, ""},
		{[]float64{150}, record.Holds, "too few repetitions"},
	} {
		var samples []record.Sample
		for i, v := range test.values {
			samples = append(samples, record.Sample{Subject: scenario.Aggregate, Metric: scenario.Goodput, Unit: record.BitPerSecond, Repetition: i + 1, Value: v, Valid: true})
		}
		got := judge(e, nil, summary.Rows(samples)[0])
		if got.Outcome != test.outcome || (got.Reason == "") != (test.reason == "") || !strings.Contains(got.Reason, test.reason) {
			t.Errorf("%v: %s, %q", test.values, got.Outcome, got.Reason)
		}
	}
}

func TestFigures(t *testing.T) {
	b := Bundle(outcome(t), record.Manifest{})
	by := map[string]record.Figure{}
	for _, f := range b.Figures {
		if _, twice := by[f.Name]; twice {
			t.Errorf("two figures are named %s", f.Name)
		}
		by[f.Name] = f
		for _, c := range f.Curves {
			if len(c.X) != len(c.Y) || len(c.X) == 0 || c.Low != nil && len(c.Low) != len(c.X) || !slices.IsSorted(c.X) {
				t.Errorf("%s, curve %s: %d x, %d y, %d low", f.Name, c.Name, len(c.X), len(c.Y), len(c.Low))
			}
		}
	}
	main := by["by-loss"]
	if len(main.Curves) < 2 || !slices.Equal(main.Curves[0].X, []float64{0, 1}) || main.XUnit != percent {
		t.Fatalf("the figure asked for: %+v", main)
	}
	talk := main.Curves[slices.IndexFunc(main.Curves, func(c record.Curve) bool { return c.Name == "a talk" })]
	near(t, "the published point", talk.Y[0], 0.3*102_000*8/0.1)
	if !talk.Reference {
		t.Error("a published line is drawn like a measured one")
	}
	for _, name := range []string{"rate-over-time-loss-0", "cwnd-over-time-loss-1", "cdf-srtt"} {
		if _, drawn := by[name]; !drawn {
			t.Errorf("figure %s is missing", name)
		}
	}
}

func TestABundleOfItIsReadBack(t *testing.T) {
	b := Bundle(outcome(t), record.Manifest{Kind: "lab", Name: "study"})
	dir := filepath.Join(t.TempDir(), "b")
	if err := bundle.Write(dir, b); err != nil {
		t.Fatal(err)
	}
	again, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Samples) != len(b.Samples) || len(again.Points) != len(b.Points) || len(again.Figures) != len(b.Figures) {
		t.Errorf("read %d samples, %d points, %d figures", len(again.Samples), len(again.Points), len(again.Figures))
	}
}

func TestTheRepresentativeIsTheMedianRun(t *testing.T) {
	o := outcome(t)
	o.Results[1].Valid = false
	chosen := representatives(o)
	if len(chosen) != 2 || chosen[0].Repetition != 1 || chosen[1].Repetition != 2 {
		t.Errorf("chose %d runs, the repetitions %d and %d", len(chosen), chosen[0].Repetition, chosen[1].Repetition)
	}
}
