// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"weir/internal/texttable"
	"weir/internal/units"
	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
)

// lossy is a link with one flow for each case of the equations.
const lossy = `
version: 1
title: a study
hosts: [a, b]
links:
  - {name: path, ends: [a, b], rate: 100Mbit, delay: 50ms}
limits:
  - {name: cap, host: a, mechanism: police, rate: 10Mbit, flows: [held]}
phases:
  - name: only
    duration: 10s
    flows:
      - {name: held, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: cubic, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: growing, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: two, kind: bulk, from: a, to: b, congestion: cubic, streams: 2}
      - {name: reno, kind: bulk, from: a, to: b, congestion: reno}
      - {name: host, kind: bulk, from: a, to: b}
      - {name: bbr, kind: bulk, from: a, to: b, congestion: bbr}
      - {name: vegas, kind: bulk, from: a, to: b, congestion: vegas}
      - {name: clean, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: free, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: slow, kind: bulk, from: a, to: b, congestion: cubic, rate: 1Mbit}
      - {name: window, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: marked, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: uncounted, kind: bulk, from: a, to: b, congestion: cubic}
      - {name: ask, kind: request, from: a, to: b}
expect:
  - {name: it works, metric: goodput, min: 1Mbit}
`

// measuredOnce imitates one valid run of a scenario with one cell; of returns the streams by name
// of flow.
func measuredOnce(t *testing.T, text string, of func(name string) traffic.Stream) *run.Outcome {
	t.Helper()
	s, cells := expanded(t, text)
	phase := cells[0].Phases[0]
	r := run.Result{Cell: &cells[0], Repetition: 1, Attempt: 1, Valid: true, Phases: []run.PhaseResult{{Phase: phase}}}
	for _, f := range phase.Flows {
		flow := traffic.Result{Flow: f, LossEventsExact: f.Name != "two", Congestion: f.Congestion}
		if f.Congestion == "" {
			flow.Congestion = "cubic"
		}
		for range f.Streams {
			flow.Streams = append(flow.Streams, of(f.Name))
		}
		r.Phases[0].Flows = append(r.Phases[0].Flows, flow)
	}
	return &run.Outcome{Scenario: s, Cells: cells, Results: []run.Result{r}}
}

// lossyStream is a stream with a round-trip time of 100 ms and p = 1 % at 1 Mbit/s. Its name
// selects deviations.
func lossyStream(name string) traffic.Stream {
	s := traffic.Stream{SentSegments: 100_000, Retransmits: 2000, LossEvents: 1000, Goodput: 1e6, Busy: 10 * time.Second,
		Readings: []traffic.Reading{{At: time.Second, SRTT: 100 * time.Millisecond}}}
	switch name {
	case "growing":
		s.LossEvents, s.Goodput = 10, 10e6
	case "bbr":
		s.Goodput = 80e6
	case "clean":
		s.LossEvents, s.Retransmits = 0, 0
	case "free":
		s.SentSegments, s.LossEvents, s.Goodput = 100_000_000, 10, 90e6
	case "window":
		s.WindowLimited = 6 * time.Second
	case "marked":
		s.DeliveredCE = 5
	case "uncounted":
		s.SentSegments, s.LossEvents = 0, 0
	}
	return s
}

func TestPredictionTable(t *testing.T) {
	b := Bundle(measuredOnce(t, lossy, lossyStream), record.Manifest{})
	table := b.Tables[1]
	// MSS 1448, so 11584 bit a segment; RTT 0.1 s. At p = 0.01:
	//   Mathis   11584 · 1.224745 / (0.1 · 0.1)                                     = 1.4187 Mbit/s; 1/1.4187 - 1 = -30 %
	//   PFTK     11584 / (0.1·√(0.02/3) + 0.4·3·√0.00375·0.01·1.0032) = 11584/0.0089022 = 1.3013 Mbit/s; -23 %
	//   RFC 9438 the same window as Mathis: 12.25 segments against 1.0538·(0.1/0.01)^0.75 = 5.9 of
	//   cubic growth
	// At p = 1e-4: Mathis 14.187, PFTK 11584/(0.00081650 + 0.4·3·√0.0000375·1e-4) = 14.175 Mbit/s;
	// RFC 9438's own function gives 1.0538·(0.1/1e-4)^0.75 = 187.4 segments, 21.708 Mbit/s, more
	// than Reno's 122.5. At p = 1e-7 the three allow 448 Mbit/s and more, the link 94.15.
	want := [][]string{
		{"cubic", "1", "1 %", "Reno-friendly", "1.419 -30%", "1.301 -23%", "1.419 -30%"},
		{"growing", "10", "0.01 %", "concave/convex", "14.19 -30%", "14.17 -29%", "21.71 -54%"},
		{"two", "2", "≥ 1 %", "Reno-friendly", "2.837 -30%", "2.603 -23%", "2.837 -30%"},
		{"reno", "1", "1 %", "–", "1.419 -30%", "1.301 -23%", "not CUBIC"},
		{"host", "1", "1 %", "Reno-friendly", "1.419 -30%", "1.301 -23%", "1.419 -30%"},
		{"bbr", "80", "1 %", "not loss-based", "–", "–", "–"},
		{"vegas", "1", "1 %", "no equation", "–", "–", "–"},
		{"clean", "1", "0 %", "no loss", "–", "–", "–"},
		{"free", "90", "1e-05 %", "rate-limited", "–", "–", "–"},
		{"slow", "1", "1 %", "rate-limited", "–", "–", "–"},
		{"window", "1", "1 %", "window-limited", "–", "–", "–"},
		{"marked", "1", "1 %", "ECN-marked", "–", "–", "–"},
		{"uncounted", "1", "–", "not counted", "–", "–", "–"},
		{"held", "1", "1 %", "under a limit", "–", "–", "–"},
	}
	byName := map[string][]string{}
	for _, row := range table.Rows {
		byName[row[0]] = row
	}
	for _, row := range want {
		if d := cmp.Diff(row, byName[row[0]]); d != "" {
			t.Errorf("%s (-want +got):\n%s", row[0], d)
		}
	}
	if len(table.Rows) != len(want) || !strings.HasSuffix(table.Title, "Mbit/s") {
		t.Errorf("table %q of %d rows, want %d", table.Title, len(table.Rows), len(want))
	}
	for _, s := range b.Samples {
		if s.Subject == "bbr" && strings.HasPrefix(s.Metric, "predicted") {
			t.Errorf("BBR has a %s", s.Metric)
		}
		if s.Subject == "growing" && s.Metric == scenario.CubicRegion && s.Value != 1 || s.Subject == "cubic" && s.Metric == scenario.CubicRegion && s.Value != 0 {
			t.Errorf("%s: %s %g", s.Subject, s.Metric, s.Value)
		}
	}
}

// TestTablesFitATerminal: predictions of every shipped scenario, with figures of typical length,
// fit into 100 columns.
func TestTablesFitATerminal(t *testing.T) {
	all, err := scenario.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range all {
		s, err := scenario.Load(listed.Name)
		if err != nil {
			t.Fatal(err)
		}
		cells, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		o := &run.Outcome{Scenario: s, Cells: cells}
		for i := range cells {
			r := run.Result{Cell: &cells[i], Repetition: 1, Attempt: 1, Valid: true}
			for _, phase := range cells[i].Phases {
				p := run.PhaseResult{Phase: phase}
				for _, f := range phase.Flows {
					stream := lossyStream("")
					stream.LossEvents, stream.Goodput = 1234, units.BitRate(123.45e6)
					stream.Readings = []traffic.Reading{{At: phase.Duration, SRTT: 1100 * time.Microsecond}}
					p.Flows = append(p.Flows, traffic.Result{Flow: f, Streams: []traffic.Stream{stream}, Congestion: "cubic", LossEventsExact: true})
				}
				r.Phases = append(r.Phases, p)
			}
			o.Results = append(o.Results, r)
		}
		for _, table := range Bundle(o, record.Manifest{}).Tables {
			if !strings.HasPrefix(table.Title, "Predictions") {
				continue
			}
			var text strings.Builder
			if err := texttable.Write(&text, table.Title, table.Note, table.Columns, table.Rows); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text.String()) {
				if width := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > 100 {
					t.Errorf("%s: %d columns: %s", s.Name, width, line)
					break
				}
			}
		}
	}
}
