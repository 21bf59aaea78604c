// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/stats"
	"weir/record/summary"
)

// contended are three repetitions at two depths, and of each flow alone. Together left has 30 and
// right 10, alone 60 and 80 kilo-octets per 100 ms, all of them more by the repetition's number and
// doubled at depth 4.
func contended(t *testing.T) *run.Outcome {
	t.Helper()
	text := strings.NewReplacer(`loss: ["0%", "1%"]`, "depth: [1, 4]", `, loss: "${loss}"`, `, queue: "${depth} bdp"`,
		"    settle: 1s\n", "    settle: 1s\n    solo: true\n", "{loss: 1%}", "{depth: 4}", "{loss: 0%}", "{depth: 1}",
		"x: loss", "x: depth", "max: 60%}", "min: 200%, max: 200%}").Replace(study) +
		"  - {name: harm, title: Harm, metric: harm, x: depth, series: subject}\n"
	text = strings.Replace(text, "published:", "  - {name: it is harmed, metric: harm, subject: right, min: 80%, max: 90%}\npublished:", 1)
	s, cells := expanded(t, text)
	o := &run.Outcome{Scenario: s, Cells: cells}
	for i := range cells {
		runs := append([]scenario.Cell{cells[i]}, cells[i].Solos()...)
		for j, cell := range runs {
			for repetition := 1; repetition <= 3; repetition++ {
				r := run.Result{Cell: &runs[j], Repetition: repetition, Attempt: 1, Valid: true, Phases: []run.PhaseResult{{Phase: cell.Phases[0]}}}
				for _, f := range cell.Phases[0].Flows {
					kilo := map[string]uint64{"left": 30, "right": 10, "leftleft": 60, "rightright": 80}[f.Name+cell.Alone()]
					r.Phases[0].Flows = append(r.Phases[0].Flows, result(f, (kilo+uint64(repetition))*1000<<i))
				}
				o.Results = append(o.Results, r)
			}
		}
	}
	return o
}

func TestHarmIsAgainstARunAlone(t *testing.T) {
	b := Bundle(contended(t), record.Manifest{})
	rows := summary.Rows(b.Samples)
	// Each repetition by itself: 1 - together/alone.
	want := []float64{1 - 11.0/81, 1 - 12.0/82, 1 - 13.0/83}
	harm, found := summary.Find(rows, record.Labels{"depth": "1"}, "right", scenario.Harm)
	if !found || cmp.Diff(want, harm.Values, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })) != "" {
		t.Fatalf("harm to right %v, want %v", harm.Values, want)
	}
	near(t, "mean harm", harm.Estimate.Mean, stats.Of(want).Mean)
	alone, found := summary.Find(rows, record.Labels{"depth": "4", "solo": "left"}, "left", scenario.Goodput)
	if !found || alone.Estimate.N != 3 {
		t.Errorf("the goodput of left alone: %+v", alone)
	}
	near(t, "the goodput of left alone", alone.Estimate.Mean, 2*62_000*8/0.1)
}

// TestRunsAloneEnterNothingElse compares everything but harm with an outcome that never had such
// runs.
func TestRunsAloneEnterNothingElse(t *testing.T) {
	with := contended(t)
	without := *with
	without.Results = nil
	for _, r := range with.Results {
		if r.Cell.Alone() == "" {
			without.Results = append(without.Results, r)
		}
	}
	a, b := Bundle(with, record.Manifest{}), Bundle(&without, record.Manifest{})
	strip := func(rows []summary.Row) (kept []summary.Row) {
		for _, row := range together(rows) {
			if row.Metric != scenario.Harm {
				kept = append(kept, row)
			}
		}
		return kept
	}
	if d := cmp.Diff(strip(summary.Rows(b.Samples)), strip(summary.Rows(a.Samples))); d != "" {
		t.Errorf("rows (-without +with runs alone):\n%s", d)
	}
	if d := cmp.Diff(b.Points, a.Points); d != "" {
		t.Errorf("series differ:\n%s", d)
	}
	if len(a.Distributions) != len(b.Distributions) {
		t.Errorf("%d distributions, without runs alone %d", len(a.Distributions), len(b.Distributions))
	}
	for i, v := range a.Verdicts {
		measured := v.Outcome == record.Holds || v.Outcome == record.Fails
		if isSolo(v.Labels) || !measured {
			t.Errorf("verdict %+v", v)
		}
		if v.Name != "it is harmed" && cmp.Diff(b.Verdicts[i], v) != "" {
			t.Errorf("verdict %+v, without runs alone %+v", v, b.Verdicts[i])
		}
	}
	if d := cmp.Diff(b.Tables[0], a.Tables[0]); d != "" {
		t.Errorf("the first table (-without +with runs alone):\n%s", d)
	}
}

func TestHarmTable(t *testing.T) {
	o := contended(t)
	for i := range o.Results {
		if r := &o.Results[i]; r.Cell.Alone() == "right" && r.Repetition == 2 {
			r.Valid = false
		}
	}
	b := Bundle(o, record.Manifest{})
	var table record.Table
	for _, candidate := range b.Tables {
		if candidate.Title == "Harm" {
			table = candidate
		}
	}
	// left: 1 - 31/61, 1 - 32/62 and 1 - 33/63 have the mean 0.48395 and the deviation 0.00781; t
	// of 2 degrees is 4.303. right: 1 - 11/81 and 1 - 13/83 have 0.85379 and 0.01473; t of 1 degree
	// is 12.71.
	want := [][]string{
		{"1", "left", "4.96 Mbit/s", "2.56 Mbit/s", "48.4 %", "46.46–50.33 %", "3"},
		{"1", "right", "6.56 Mbit/s", "960 kbit/s", "85.38 %", "72.15–98.61 %", "2"},
		{"4", "left", "9.92 Mbit/s", "5.12 Mbit/s", "48.4 %", "46.46–50.33 %", "3"},
		{"4", "right", "13.12 Mbit/s", "1.92 Mbit/s", "85.38 %", "72.15–98.61 %", "2"},
	}
	if d := cmp.Diff(want, table.Rows); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}
