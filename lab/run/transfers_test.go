// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"testing"
	"time"

	"weir/lab/traffic"
	"weir/lab/traffic/workload"
)

// Transfers come at the same times, with the same sizes, in each cell and attempt, and at others in
// each repetition, flow and phase.
func TestTheSeedDecidesTransfers(t *testing.T) {
	const flows = `[{name: web, kind: transfers, from: a, to: b, sizes: web-search, arrivals: 10/s}, {name: other, kind: transfers, from: a, to: b, sizes: web-search, arrivals: 10/s}]`
	cells, err := parse(t, `
version: 1
title: transfers
sweep: {rate: [10Mbit, 20Mbit]}
hosts: [a, b]
links: [{ends: [a, b], rate: "${rate}"}]
phases:
  - {name: one, duration: 9s, flows: `+flows+`}
`).Expand()
	if err != nil {
		t.Fatal(err)
	}
	plan := func(seed uint64, cell, repetition, attempt, flow int) []workload.Arrival {
		f := seeded(&cells[cell], seed, job{cell, repetition}, attempt).Phases[0].Flows[flow]
		return f.Load.Plan(f.Duration)
	}
	one := plan(1, 0, 1, 1, 0)
	if !slices.Equal(one, plan(1, 1, 1, 1, 0)) || !slices.Equal(one, plan(1, 0, 1, 2, 0)) {
		t.Error("transfers differ by cell or attempt")
	}
	if slices.Equal(one, plan(2, 0, 1, 1, 0)) || slices.Equal(one, plan(1, 0, 2, 1, 0)) || slices.Equal(one, plan(1, 0, 1, 1, 1)) {
		t.Error("transfers do not differ by seed, repetition and flow")
	}
	if cells[0].Phases[0].Flows[0].Load.Seed != 0 {
		t.Error("the cell itself was changed")
	}
}

// Transfers that come later than they are due spoil a run.
func TestLateTransfersSpoilARun(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 0, traffic.MaxLate: 0, traffic.MaxLate + time.Millisecond: 1} {
		flow := traffic.Result{Transfers: []traffic.Transfer{{Due: time.Second, Begun: time.Second}, {Due: 2 * time.Second, Begun: 2*time.Second + late}}}
		if got := problems([]PhaseResult{{Flows: []traffic.Result{flow}}}); len(got) != want {
			t.Errorf("%s late: %q", late, got)
		}
	}
}
