// SPDX-License-Identifier: Apache-2.0

package scoreboard

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/record"
	"weir/record/summary"
)

const results = "../../docs/results"

// published is the number of results in the sources.
const published = 38

// write is set by go generate.
var write = flag.Bool("write", false, "write the document instead of comparing it")

func TestTheDocumentIsGeneratedFromItsSources(t *testing.T) {
	b, err := Read(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(results); err != nil {
		t.Error(err)
	}
	if len(b.Rows) != published {
		t.Errorf("%d rows of %d", len(b.Rows), published)
	}
	if *write {
		if err := os.WriteFile(filepath.Join(results, Document), []byte(b.Render()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(filepath.Join(results, Document))
	if err != nil || string(have) != b.Render() {
		t.Errorf("%s is not what its sources make: run go generate ./bench/scoreboard (%v)", Document, err)
	}
}

func TestFiguresComeFromABundle(t *testing.T) {
	e := evidence{rows: summary.Rows([]record.Sample{
		sample("a", "small", 1, 2), sample("a", "small", 2, 4), sample("a", "large", 1, 30), sample("a", "large", 2, 30),
		sample("b", "small", 1, 6), sample("b", "small", 2, 6), sample("c", "small", 1, 6),
	})}
	for name, c := range map[string]struct {
		figure                Figure
		value, interval, want string
	}{
		"a mean":          {Figure{Subject: "small", Where: record.Labels{"cell": "a"}}, "3 s", "[-9.706 s, 15.71 s]", ""},
		"of a subject":    {Figure{Subject: "small", Where: record.Labels{"cell": "b"}, Of: "large", RelativeTo: record.Labels{"cell": "a"}, Times: 2}, "40 %", "[40, 40] %", ""},
		"of a cell":       {Figure{Subject: "large", Where: record.Labels{"cell": "a"}, Of: "small", RelativeTo: record.Labels{"cell": "b"}}, "500 %", "[500, 500] %", ""},
		"several cells":   {Figure{Subject: "small"}, "", "", "3 cells"},
		"no cell":         {Figure{Subject: "small", Where: record.Labels{"cell": "d"}}, "", "", "0 cells"},
		"one repetition":  {Figure{Subject: "small", Where: record.Labels{"cell": "c"}}, "", "", "no interval"},
		"a ratio of one":  {Figure{Subject: "small", Where: record.Labels{"cell": "c"}, RelativeTo: record.Labels{"cell": "b"}}, "", "", "no interval"},
		"nothing beneath": {Figure{Subject: "small", Where: record.Labels{"cell": "a"}, Of: "medium"}, "", "", "0 cells"},
	} {
		c.figure.Metric = "time"
		value, interval, err := e.figure(c.figure)
		if value != c.value || interval != c.interval || (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %q, %v", name, value, interval, err)
		}
	}
	if said := command([]string{"weir", "lab", "run", "x", "--out", "y", "--seed", "1"}); said != "weir lab run x --seed 1" {
		t.Errorf("command %q", said)
	}
}

func sample(cell, subject string, repetition int, value float64) record.Sample {
	return record.Sample{Labels: record.Labels{"cell": cell}, Subject: subject, Metric: "time", Unit: record.Seconds, Repetition: repetition, Value: value, Valid: true}
}

func TestWhatNoDocumentSaysIsFound(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.md"), []byte("`weir lab\nrun it` on Linux 6.18: 12.5 % [11, 14]"), 0o600); err != nil {
		t.Fatal(err)
	}
	row := func() Row {
		return Row{Source: "s", Published: "p", Weir: "12.5 %", Interval: "[11, 14]", Run: "r", Quotes: []string{"12.5 % [11, 14]"}, Verdict: repeated}
	}
	for name, c := range map[string]struct {
		change func(*Row, *Run)
		want   string
	}{
		"nothing":         {func(*Row, *Run) {}, ""},
		"another figure":  {func(r *Row, _ *Run) { r.Weir = "12.6 %" }, "12.6 is in none"},
		"its sign":        {func(r *Row, _ *Run) { r.Weir = "−12.5 %" }, "−12.5 is in none"},
		"interval":        {func(r *Row, _ *Run) { r.Interval = "[1, 14]" }, "1 is in none"},
		"quote":           {func(r *Row, _ *Run) { r.Quotes[0] += "!" }, "does not say"},
		"command":         {func(_ *Row, r *Run) { r.Command = "weir lab run that" }, "does not say"},
		"kernel":          {func(_ *Row, r *Run) { r.Kernel = "Linux 6.19" }, "does not say"},
		"document":        {func(_ *Row, r *Run) { r.Document = "b.md" }, "no such file"},
		"no run":          {func(r *Row, _ *Run) { r.Run = "" }, "with the figure"},
		"no figure":       {func(r *Row, _ *Run) { r.Weir = "" }, "repeated, with the figure"},
		"no reason":       {func(r *Row, _ *Run) { r.Verdict = differs }, "no reason"},
		"a figure of air": {func(r *Row, _ *Run) { r.Verdict, r.Why = notMeasured, "w" }, "not measured, with"},
		"verdict":         {func(r *Row, _ *Run) { r.Verdict = "good" }, "verdict"},
	} {
		changed, run := row(), Run{Document: "a.md", Command: "weir lab run it", Kernel: "Linux 6.18"}
		c.change(&changed, &run)
		err := Board{Runs: map[string]Run{"r": run}, Rows: []Row{changed}}.Check(folder)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
