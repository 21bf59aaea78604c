// SPDX-License-Identifier: Apache-2.0

package run

import (
	"runtime"
	"strings"
	"testing"

	"weir/kernel/testutil"
	"weir/tester/generator"
)

const forwarding = `version: 1
title: a benchmark
attempts: 1
hosts: [a, b]
routers: [r]
links:
  - {name: in, ends: [a, r], plain: true}
  - {name: out, ends: [r, b], plain: true}
phases:
  - duration: 20s
    procedure: {kind: rfc2544, from: a, to: b, family: 6, trial: 50ms, resolution: 50%}
`

// TestAProcedureRunsThroughTheRouter does not ask for a throughput, which a disturbed machine may
// not have: but it must then say why, and no run without one counts.
func TestAProcedureRunsThroughTheRouter(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "live-frames", generator.LiveFrames())
	testutil.NeedReceiveThreads(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	outcome, err := Execute(t.Context(), parse(t, forwarding), Options{Carrier: &fakeCarrier{}, Generator: fakeGenerator{}, Gate: Fidelity{}})
	if outcome == nil || len(outcome.Results) != 1 {
		t.Fatalf("outcome %+v, %v", outcome, err)
	}
	result := outcome.Results[0]
	p := result.Phases[0].Procedure
	if runtime.NumCPU() < 2 {
		if result.Valid || !strings.Contains(result.Reason(), "no CPU 1 for the device under test") {
			t.Errorf("on one CPU: valid %v, %s", result.Valid, result.Reason())
		}
		return
	}
	if !strings.Contains(p.Device, "from in to out") {
		t.Fatalf("the device under test is %q: %s", p.Device, p.Problem)
	}
	var sent, read uint64
	for _, a := range p.Report.Attempts {
		sent += a.Outcome.Sent()
		if a.Outcome.Device != nil {
			read++
		}
	}
	if sent == 0 || read == 0 {
		t.Errorf("%d frames were sent in %d trials, in %d of which the device was read; %s", sent, len(p.Report.Attempts), read, p.Problem)
	}
	if _, measured := p.Throughput(); measured != result.Valid {
		t.Errorf("a throughput: %v, the run counts: %v (%s)", measured, result.Valid, result.Reason())
	}
}
