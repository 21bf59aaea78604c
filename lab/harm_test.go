// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"os"
	"path/filepath"
	"testing"

	"weir/lab/scenario"
	"weir/record"
	"weir/record/summary"
)

// contending has a TCP flow with an advertised window of a few segments (69 would fill the path),
// and a UDP flow.
const contending = `version: 1
title: two flows
hosts: [one, two, {name: sink, sysctls: {net.ipv4.tcp_rmem: 4096 8192 8192}}]
routers: [gate]
links:
  - {ends: [one, gate], plain: true}
  - {ends: [two, gate], plain: true}
  - {name: neck, ends: [gate, sink], rate: 20Mbit, delay: 20ms, queue: 1 bdp}
phases:
  - name: both
    duration: 1s
    settle: 200ms
    solo: true
    flows:
      - {name: small, kind: bulk, from: one, to: sink, congestion: cubic}
      - {name: datagrams, kind: udp, from: two, to: sink, rate: 4Mbit}
`

// TestHarmAndLimitsOfRealFlows runs two flows together and each alone.
func TestHarmAndLimitsOfRealFlows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "contending.yaml")
	if err := os.WriteFile(file, []byte(contending), 0o600); err != nil {
		t.Fatal(err)
	}
	b := measure(t, file, "weir")
	rows := summary.Rows(b.Samples)
	for _, flow := range []string{"small", "datagrams"} {
		alone, measured := summary.Find(rows, record.Labels{scenario.SoloLabel: flow}, flow, scenario.Goodput)
		together, _ := summary.Find(rows, record.Labels{}, flow, scenario.Goodput)
		harm, found := summary.Find(rows, record.Labels{}, flow, scenario.Harm)
		if !measured || !found || harm.Estimate.N != 1 || alone.Estimate.N != 1 || together.Estimate.N != 1 {
			t.Fatalf("%s: harm %+v, alone %+v, together %+v", flow, harm.Estimate, alone.Estimate, together.Estimate)
		}
		if want := 1 - together.Estimate.Mean/alone.Estimate.Mean; harm.Estimate.Mean-want > 1e-9 || want-harm.Estimate.Mean > 1e-9 {
			t.Errorf("harm to %s is %g, want %g", flow, harm.Estimate.Mean, want)
		}
	}
	limited, found := summary.Find(rows, record.Labels{}, "small", scenario.WindowLimited)
	if !found || limited.Estimate.Mean <= 0 || limited.Estimate.Mean > 1 {
		t.Errorf("the receiver's small window limited the flow for %+v of its time", limited.Estimate)
	}
}
