// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/record"
	"weir/record/hist"
	"weir/tester"
	"weir/tester/evidence"
	"weir/tester/session"
	"weir/tester/spec"
)

// account is one stream: 1000 frames sent at 1000 frame/s, and 990 received, after 1 to 990 µs.
func account(clock session.Clock) session.Account {
	delay, variation := &hist.Histogram{}, &hist.Histogram{}
	for i := range uint64(990) {
		delay.Record((i + 1) * 1000)
	}
	variation.RecordN(1000, 989)
	return session.Account{
		Format: session.FormatAccount, Clock: clock, Started: time.Unix(1000, 0), Elapsed: 2 * time.Second, Lateness: delay.Clone(),
		Streams: []session.Stream{{
			ID: 3, Name: "s", Asked: 1000, Lost: 10,
			Sent: &tester.Sent{Frames: 1000, Late: 5, Skipped: 2, First: time.Second, Last: time.Second + 999*time.Millisecond},
			Received: &tester.Counts{
				Received: 991, Unique: 990, Duplicates: 1, Reordered: 4, MaxExtent: 2, WireBytes: 991 * 100, PayloadBytes: 991 * 38,
				Delay: delay, DelayMin: 1000, DelayMax: 990_000, Variation: variation, First: time.Second, Last: time.Second + 990*time.Millisecond,
			},
		}},
		Series: []session.Reading{{At: time.Second, Stream: 3, Received: 1000, Delay: 5e5}},
	}
}

func close(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want)) }

func TestValuesByHand(t *testing.T) {
	v := evidence.Values(account(session.OneWay).Streams[0], session.OneWay)
	for name, want := range map[string]float64{
		"stream_sent": 1000, "stream_received": 991, "stream_lost": 10, "stream_loss": 0.01, "stream_duplicates": 0.001,
		"stream_reordered": 4.0 / 991, "stream_reorder_extent": 2, "stream_send_rate": 1000, "stream_rate": 1000,
		"stream_wire_rate": 800_000, "stream_payload_rate": 304_000, "stream_late": 0.005, "stream_skipped": 2,
		"owd_min": 1e-6, "owd_mean": 495.5e-6, "owd_max": 990e-6, "ipdv_mean": 1e-6,
	} {
		t.Run(name, func(t *testing.T) {
			if got, measured := v[name]; !measured || !close(got, want) {
				t.Errorf("%s is %g (measured %v), want %g", name, got, measured, want)
			}
		})
	}
	if p99 := v["owd_p99"]; p99 < 950e-6 || p99 > 990e-6 {
		t.Errorf("owd_p99 is %g, want 981 µs within the histogram's resolution", p99)
	}
	for _, m := range spec.Metrics() {
		if _, measured := v[m.Name]; !measured {
			t.Errorf("the metric %s has no value", m.Name)
		}
	}
}

func TestTwoClocksGiveNoOneWayDelay(t *testing.T) {
	a := account(session.Relative)
	v := evidence.Values(a.Streams[0], a.Clock)
	if v["relative_delay_min"] != 0 || !close(v["relative_delay_mean"], 494.5e-6) {
		t.Errorf("relative delays from %g, mean %g; want 0 and 494.5 µs", v["relative_delay_min"], v["relative_delay_mean"])
	}
	most := 1.0
	b := evidence.Bundle(a, []spec.Expectation{{Name: "quick", Metric: "owd_p99", Max: &most}})
	for _, s := range b.Samples {
		if strings.HasPrefix(s.Metric, "owd") {
			t.Errorf("two clocks gave the sample %s", s.Metric)
		}
	}
	for _, d := range b.Distributions {
		if d.Metric == "owd" {
			t.Error("two clocks gave a distribution of one-way delays")
		}
	}
	for _, f := range b.Figures {
		if strings.Contains(f.Title, "ne-way") {
			t.Errorf("two clocks gave the figure %q", f.Title)
		}
	}
	if b.Verdicts[0].Outcome != record.NotMeasured || !strings.Contains(b.Verdicts[0].Reason, "clocks") {
		t.Errorf("verdict %+v", b.Verdicts[0])
	}
}

func TestVerdicts(t *testing.T) {
	a := account(session.OneWay)
	one, two := 0.01, 0.02
	for name, test := range map[string]struct {
		e    spec.Expectation
		want record.Outcome
	}{
		"at the bound": {spec.Expectation{Metric: "stream_loss", Max: &one}, record.Holds},
		"below min":    {spec.Expectation{Metric: "stream_loss", Min: &two}, record.Fails},
		"between":      {spec.Expectation{Metric: "stream_loss", Min: &one, Max: &two, Stream: "s"}, record.Holds},
	} {
		verdicts := evidence.Verdicts(a, []spec.Expectation{test.e})
		if len(verdicts) != 1 || verdicts[0].Outcome != test.want || verdicts[0].Measured != "1 %" {
			t.Errorf("%s: %+v, want %s", name, verdicts, test.want)
		}
	}
	a.Streams[0].Sent = nil
	if v := evidence.Verdicts(a, []spec.Expectation{{Metric: "stream_late", Max: &one}}); len(v) != 0 {
		t.Errorf("the receiver alone judged what only the sender knows: %+v", v)
	}
}

func TestBundleHoldsTheWholeAccount(t *testing.T) {
	b := evidence.Bundle(account(session.OneWay), nil)
	if len(b.Distributions) != 3 || b.Distributions[0].Metric != "owd" || b.Distributions[1].Metric != "ipdv" || b.Distributions[2].Metric != "lateness" {
		t.Errorf("distributions %+v", b.Distributions)
	}
	names := map[string]bool{}
	for _, f := range b.Figures {
		names[f.Name] = true
		for _, c := range f.Curves {
			if len(c.X) == 0 || len(c.X) != len(c.Y) {
				t.Errorf("figure %s: curve %s has %d x and %d y", f.Name, c.Name, len(c.X), len(c.Y))
			}
		}
	}
	for _, want := range []string{"owd-cdf", "owd-histogram", "ipdv-cdf", "rate", "lost", "delay"} {
		if !names[want] {
			t.Errorf("no figure %s", want)
		}
	}
	for _, table := range b.Tables {
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Errorf("table %q: %d cells under %d columns", table.Title, len(row), len(table.Columns))
			}
		}
	}
	if len(b.Points) != 5 || b.Points[1].Value != 1000 {
		t.Errorf("points %+v", b.Points)
	}
}

func TestManyStreamsKeepTablesAndFiguresReadable(t *testing.T) {
	a := account(session.OneWay)
	for i := range 500 {
		s := a.Streams[0]
		s.ID = uint16(i + 10)
		a.Streams = append(a.Streams, s)
	}
	b := evidence.Bundle(a, nil)
	if rows := len(b.Tables[0].Rows); rows != evidence.MaxRows || b.Tables[0].Note != "and 401 more streams" {
		t.Errorf("%d rows, note %q", rows, b.Tables[0].Note)
	}
	if n := len(b.Figures[0].Curves); n > 8 {
		t.Errorf("%d curves in one figure", n)
	}
}
