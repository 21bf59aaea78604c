// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"weir/record"
	"weir/tester/rfc2544"
)

func TestBackToBackFindsTheBuffer(t *testing.T) {
	const capacity, buffer = 5e6, 1024
	c := quick(rfc2544.Throughput, rfc2544.BackToBack)
	c.BurstStep = 1
	report := run(t, c, &device{capacity: capacity, buffer: buffer})
	got := report.BackToBack[0]
	line := report.Throughput[0].Theoretical
	want := buffer / (1 - capacity/line)
	for _, length := range got.Lengths {
		if math.Abs(length-want) > 2 {
			t.Errorf("longest burst %.0f, want %.1f", length, want)
		}
	}
	// The corrected buffer time is the buffer in units of line time (RFC 9004 section 6.4), with
	// the measured throughput.
	mean := got.Lengths[0]
	if corrected := got.Corrected(mean) * line; math.Abs(corrected-buffer) > 0.05*buffer {
		t.Errorf("corrected buffer %.0f frames, want %d", corrected, buffer)
	}
	if got.AtLimit {
		t.Error("the search ended at its limit")
	}
}

func TestBackToBackIsNotMeasuredWhereNothingFillsTheBuffer(t *testing.T) {
	report := run(t, quick(rfc2544.Throughput, rfc2544.BackToBack, rfc2544.Recovery), &device{capacity: 1e9})
	if got := report.BackToBack[0]; got.Reason == "" || len(got.Lengths) > 0 {
		t.Errorf("bursts into a device as fast as the line: %+v", got)
	}
	if got := report.Recovery[0]; got.Reason == "" {
		t.Errorf("overload of a device as fast as the line: %+v", got)
	}
}

func TestFrameLossFallsUntilTwoRatesAreClean(t *testing.T) {
	const capacity = 0.65 * 14880952
	report := run(t, quick(rfc2544.FrameLoss), &device{capacity: capacity})
	got := report.FrameLoss[0]
	want := []float64{1 - 0.65, 1 - 0.65/0.9, 1 - 0.65/0.8, 1 - 0.65/0.7, 0, 0}
	if len(got.Points) != len(want) {
		t.Fatalf("%d points, want %d: %+v", len(got.Points), len(want), got.Points)
	}
	for i, p := range got.Points {
		if math.Abs(p.Percent-float64(100-10*i)) > 1e-6 || math.Abs(p.Loss-want[i]) > 1e-4 {
			t.Errorf("point %d: %.0f %% lost %.4f, want %d %% and %.4f", i, p.Percent, p.Loss, 100-10*i, want[i])
		}
	}
	if len(report.Throughput) != 0 {
		t.Error("a frame loss rate alone needs no throughput, and one was measured")
	}
}

func TestFrameLossMarksRatesThatTheTesterCannotOffer(t *testing.T) {
	got := run(t, quick(rfc2544.FrameLoss), &device{capacity: 1e9, generator: 0.75 * 14880952}).FrameLoss[0]
	for _, p := range got.Points {
		if offered := p.Reason == ""; offered != (p.Percent < 75.5) {
			t.Errorf("%.0f %%: reason %q", p.Percent, p.Reason)
		}
	}
}

func TestLatencyRunsAtTheThroughputRateOneFrameAtATime(t *testing.T) {
	d := &device{capacity: 1e6, directions: 2}
	c := quick(rfc2544.Throughput, rfc2544.Latency)
	c.LatencyRuns = 20
	report := run(t, c, d)
	got := report.Latency[0]
	if len(got.Runs) != 20 || got.Rate != report.Throughput[0].Rate {
		t.Errorf("%d runs at %.0f frame/s, want 20 at %.0f", len(got.Runs), got.Rate, report.Throughput[0].Rate)
	}
	if mean := got.Estimate().Mean; math.Abs(mean-5e-6) > 1e-12 {
		t.Errorf("latency %g s, want 5e-6", mean)
	}
	for _, trial := range d.trials[len(d.trials)-20:] {
		if trial.Batch != 1 || trial.Rate != got.Rate {
			t.Errorf("latency trial %+v", trial)
		}
	}
}

func TestRecoveryOverloadsAndHalves(t *testing.T) {
	d := &device{capacity: 1e6, recover: 3 * time.Millisecond}
	report := run(t, quick(rfc2544.Throughput, rfc2544.Recovery), d)
	got, last := report.Recovery[0], d.trials[len(d.trials)-1]
	if len(got.Times) != 1 || got.Times[0] != 0.003 {
		t.Errorf("recovery times %v, want 3 ms", got.Times)
	}
	if last.Rate != 1.1*report.Throughput[0].Rate || last.Then.Rate != last.Rate/2 {
		t.Errorf("trial %+v, want 110 %% of the throughput, then half of it", last)
	}
}

func TestResetCallsItsTriggerAndReportsTheSilence(t *testing.T) {
	c := quick(rfc2544.Throughput, rfc2544.Reset)
	calls := 0
	c.ResetKinds = []rfc2544.ResetKind{{Name: "software", Trigger: func(context.Context) error { calls++; return nil }}}
	report := run(t, c, &device{capacity: 1e6, silence: 1500 * time.Millisecond})
	if got := report.Reset[0]; calls != 1 || got.Time != 1.5 || got.Kind != "software" {
		t.Errorf("%d resets, result %+v; want one of 1.5 s", calls, got)
	}
	broken := errors.New("no power switch")
	c.ResetKinds[0].Trigger = func(context.Context) error { return broken }
	if _, err := rfc2544.Run(context.Background(), c, &device{capacity: 1e6}); !errors.Is(err, broken) {
		t.Errorf("a broken trigger: %v", err)
	}
}

func TestReportHasTheFormatOfSection26(t *testing.T) {
	c := quick(rfc2544.Tests[:5]...)
	c.Sizes = []int{64, 512, 1518}
	report := run(t, c, &device{capacity: 1e5, buffer: 100, recover: time.Millisecond})
	bundle := report.Bundle()
	titles := map[string]int{}
	for _, table := range bundle.Tables {
		titles[table.Title] = len(table.Rows)
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Errorf("table %q: row of %d cells under %d columns", table.Title, len(row), len(table.Columns))
			}
		}
	}
	for _, want := range []string{"Throughput", "Latency", "Frame loss rate", "Back-to-back frames", "System recovery"} {
		if titles[want] < 3 {
			t.Errorf("table %q has %d rows, want one per frame size at least", want, titles[want])
		}
	}
	figure := bundle.Figures[0]
	if figure.XLabel != "frame size" || len(figure.Curves) != 2 || !figure.Curves[0].Reference {
		t.Errorf("the first figure is not throughput against frame size with the theoretical maximum: %+v", figure)
	}
	if len(figure.Curves[1].X) != 3 || figure.Curves[1].Y[0] < 0.9e5 {
		t.Errorf("throughput curve %+v", figure.Curves[1])
	}
	found := false
	for _, s := range bundle.Samples {
		found = found || s.Metric == "throughput" && s.Valid && s.Unit == record.FramePerSecond && s.Labels["frame size"] == "64"
	}
	if !found {
		t.Error("no sample holds the throughput of 64-octet frames")
	}
}
