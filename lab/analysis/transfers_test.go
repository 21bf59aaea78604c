// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/lab/traffic"
	"weir/record"
)

const transfersStudy = `
version: 1
title: transfers
hosts: [a, b]
links: [{name: path, ends: [a, b], rate: 8Mbit, delay: 10ms}]
phases:
  - {name: only, duration: 4s, settle: 1s, flows: [{name: web, kind: transfers, from: a, to: b, sizes: web-search, most: 20MB, arrivals: 10/s}]}
`

// transfersOutcome has ten small transfers of 100 to 1000 ms, one that is unfinished, a middle one,
// and two that began within the settle time.
func transfersOutcome(t *testing.T) *run.Outcome {
	s, cells := expanded(t, transfersStudy)
	f := cells[0].Phases[0].Flows[0]
	r := traffic.Result{Flow: f, Generator: "weir", Streams: []traffic.Stream{{ReceivedBytes: 1, Received: make([]uint64, 40)}}}
	add := func(due, took time.Duration, octets uint64) {
		r.Transfers = append(r.Transfers, traffic.Transfer{Octets: octets, Due: due, Begun: due + time.Millisecond, Took: took})
	}
	const ms = time.Millisecond
	add(0, 5*time.Second, 1000)
	add(999*ms, 0, 20_000_000)
	for i := range 10 {
		add(time.Second, time.Duration(1000-100*i)*ms, 1448)
	}
	add(2*time.Second, 0, 100_000)
	add(2*time.Second, 3*time.Second, 100_001)
	return &run.Outcome{Scenario: s, Cells: cells, Results: []run.Result{{Cell: &cells[0], Repetition: 1, Attempt: 1, Valid: true,
		Phases: []run.PhaseResult{{Phase: cells[0].Phases[0], Flows: []traffic.Result{r}}}}}}
}

func TestTransfersBySize(t *testing.T) {
	b := Bundle(transfersOutcome(t), record.Manifest{})
	// The least time of 1448 octets: 30 ms of delay and 1538 octets at 8 Mbit/s.
	const least = 0.030 + 1538*8/8e6
	for _, want := range []struct {
		subject, metric string
		value           float64
	}{
		{"web", scenario.TransfersBegun, 12},
		{"web", scenario.TransfersCompleted, 11},
		{"web", scenario.TransfersUnfinished, 1},
		{"web", scenario.TransferMean, (5.5 + 3) / 11},
		{"web", scenario.TransferP50, 0.6},
		{"web", scenario.TransferP99, 3},
		{"web", scenario.TransferLateness, 0.001},
		{"web small", scenario.TransfersBegun, 11},
		{"web small", scenario.TransfersUnfinished, 1},
		{"web small", scenario.TransferMean, 0.55},
		{"web small", scenario.TransferP50, 0.5},
		{"web small", scenario.TransferP999, 1},
		{"web small", scenario.SlowdownP50, 0.5 / least},
		{"web small", scenario.SlowdownP99, 1 / least},
		{"web middle", scenario.TransfersBegun, 1},
		{"web middle", scenario.TransferMean, 3},
		{"web large", scenario.TransfersBegun, 0},
		{"web large", scenario.TransfersUnfinished, 0},
	} {
		if got := value(b, want.subject, want.metric); math.Abs(got-want.value) > 1e-6 {
			t.Errorf("%s of %s is %g, want %g", want.metric, want.subject, got, want.value)
		}
	}
	if got := value(b, "web large", scenario.TransferMean); !math.IsNaN(got) {
		t.Errorf("transfers that were none have a mean of %g", got)
	}
	if got := value(b, scenario.Aggregate, scenario.Goodput); !math.IsNaN(got) {
		t.Errorf("the goodput of transfers is in the aggregate: %g", got)
	}
}

// value is that of the only sample; NaN if there is none.
func value(b *record.Bundle, subject, metric string) float64 {
	i := slices.IndexFunc(b.Samples, func(s record.Sample) bool { return s.Subject == subject && s.Metric == metric })
	if i < 0 {
		return math.NaN()
	}
	return b.Samples[i].Value
}

func TestReportOfTransfers(t *testing.T) {
	b := Bundle(transfersOutcome(t), record.Manifest{})
	counts := map[string]uint64{}
	for _, d := range b.Distributions {
		if d.Metric == distributionTransfer {
			counts[d.Subject] = d.Histogram.Count()
		}
	}
	if len(counts) != 3 || counts["web"] != 11 || counts["web small"] != 10 || counts["web middle"] != 1 {
		t.Errorf("completion times are kept of %v", counts)
	}
	i := slices.IndexFunc(b.Tables, func(t record.Table) bool { return t.Title == "Completion times of transfers" })
	if i < 0 || len(b.Tables[i].Rows) != 3 || !strings.Contains(b.Tables[i].Note, "unfinished at the end of the flow are excluded") {
		t.Fatalf("tables: %+v", b.Tables)
	}
	unfinished := slices.Index(b.Tables[i].Columns, "unfinished")
	if row := b.Tables[i].Rows[0]; row[0] != "web" || row[unfinished] != "1" {
		t.Errorf("the row of all transfers is %q", row)
	}
	if !slices.ContainsFunc(b.Manifest.Notes, func(n string) bool {
		return strings.HasPrefix(n, "flow web: sizes of web-search above 20 MB are 20 MB: 1.5 % of the transfers; the mean is 1.64 MB in place of 1.71 MB")
	}) {
		t.Errorf("no note of what was cut: %q", b.Manifest.Notes)
	}
}
