// SPDX-License-Identifier: Apache-2.0

package figures_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/record"
	"weir/record/figures"
	"weir/record/hist"
)

func point(loss, subject string, repetition, attempt int, at time.Duration, value float64) record.Point {
	return record.Point{Labels: record.Labels{"loss": loss}, Subject: subject, Metric: "goodput_now", Unit: record.BitPerSecond,
		Repetition: repetition, Attempt: attempt, At: at, Value: value}
}

func TestTimeLinesTakeTheValidAttemptOfTheFirstRepetition(t *testing.T) {
	made := figures.TimeLines([]record.Point{
		point("1%", "b", 2, 1, 0, 99), point("1%", "a", 1, 1, 0, 98),
		point("1%", "b", 1, 2, time.Second, 4), point("1%", "a", 1, 2, 0, 1), point("1%", "a", 1, 2, time.Second, 2),
		point("0", "a", 1, 1, 0, 7),
	})
	if len(made) != 2 || made[0].Subtitle != "loss=0, repetition 1" {
		t.Fatalf("figures %+v", made)
	}
	want := record.Figure{Name: "time-goodput_now-loss-1", Title: "goodput now over time", Subtitle: "loss=1%, repetition 1",
		Kind: record.TimeLine, XLabel: "time", YLabel: "goodput now", XUnit: record.Seconds, YUnit: record.BitPerSecond,
		Curves: []record.Curve{{Name: "a", X: []float64{0, 1}, Y: []float64{1, 2}}, {Name: "b", X: []float64{1}, Y: []float64{4}}}}
	if diff := cmp.Diff(want, made[1]); diff != "" {
		t.Errorf("figure (-want +got):\n%s", diff)
	}
}

func distribution(loss string, valid bool, values ...uint64) record.Distribution {
	h := &hist.Histogram{}
	for _, v := range values {
		h.Record(v)
	}
	return record.Distribution{Labels: record.Labels{"loss": loss, "cc": "bbr"}, Subject: "flow", Metric: "rtt", Unit: record.Seconds,
		Valid: valid, Histogram: h}
}

func TestDistributionsMergeValidRepetitions(t *testing.T) {
	made := figures.Distributions([]record.Distribution{
		distribution("10%", true, 40), distribution("1%", true, 10), distribution("1%", true, 20),
		distribution("1%", false, 5), distribution("2%", true), {Histogram: nil, Valid: true},
	})
	if len(made) != 1 {
		t.Fatalf("figures %+v", made)
	}
	f := made[0]
	want := []record.Curve{
		{Name: "loss=1%", X: []float64{10e-9, 10e-9, 20e-9}, Y: []float64{0, 0.5, 1}},
		{Name: "loss=10%", X: []float64{40e-9, 40e-9}, Y: []float64{0, 1}},
	}
	if diff := cmp.Diff(want, f.Curves); diff != "" {
		t.Errorf("curves (-want +got):\n%s", diff)
	}
	if f.Subtitle != "cc=bbr, all valid repetitions" || f.LogX {
		t.Errorf("figure %+v", f)
	}
	if wide := figures.Distributions([]record.Distribution{distribution("1%", true, 10, 1000)}); !wide[0].LogX {
		t.Error("two decades are not drawn over a log axis")
	}
}

func TestRejectedRunsAreNotDrawn(t *testing.T) {
	b := &record.Bundle{Points: []record.Point{point("1%", "a", 1, 1, 0, 98), point("1%", "a", 2, 1, 0, 5), point("2%", "a", 1, 1, 0, 7)}}
	for i, valid := range []bool{false, true} {
		b.Samples = append(b.Samples, record.Sample{Labels: record.Labels{"loss": "1%"}, Repetition: i + 1, Attempt: 1, Valid: valid})
	}
	all, _ := figures.All(b, 10)
	if len(all) != 2 || all[0].Curves[0].Y[0] != 5 || all[1].Curves[0].Y[0] != 7 {
		t.Errorf("figures %+v", all)
	}
}

func TestAllRespectsOwnFiguresAndTheLimit(t *testing.T) {
	b := &record.Bundle{Figures: []record.Figure{{Name: "own", Kind: record.Steps}, {Name: "../own"}, {Name: "own"}},
		Distributions: []record.Distribution{distribution("1%", true, 5)}}
	for i := range 30 {
		b.Points = append(b.Points, point(fmt.Sprint(i), "a", 1, 1, 0, 1))
	}
	all, omitted := figures.All(b, 6)
	if len(all) != 9 || omitted != 24 || all[0].Name != "own" {
		t.Errorf("%d figures, %d omitted", len(all), omitted)
	}
	names := map[string]bool{}
	for _, f := range all {
		if names[f.Name] || strings.ContainsAny(f.Name, "/ %") {
			t.Errorf("the name %q is used twice or is no file name", f.Name)
		}
		names[f.Name] = true
	}
}
