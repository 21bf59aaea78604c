// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"fmt"
	"time"

	"weir/record"
	"weir/record/hist"
)

// hostile is a name that must be escaped everywhere.
const hostile = `<script>alert("x")</script>&'`

// fixture is a bundle with all parts.
func fixture() *record.Bundle {
	b := &record.Bundle{Manifest: record.Manifest{
		Format: record.FormatBundle, Kind: "lab", Name: "loss-study", Version: "1.0.0",
		Command: []string{"weir", "lab", "run", "loss-study", "--seed", "7"},
		Started: time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.UTC), Finished: time.Date(2026, 5, 1, 12, 1, 30, 0, time.UTC),
		Machine:    record.Machine{Kernel: "6.12.1", CPU: "Example CPU", Cores: 2, Memory: 8 << 30, Distro: "Debian 13", Virtual: "kvm", Clock: record.InstructionClock},
		Mechanisms: map[string]string{"link": "AF_XDP emulator"}, Seed: 1<<63 + 11, Parameters: map[string]string{"rate": "1Gbit"},
		Source: "name: loss-study\n# <&>\n", Notes: []string{"1 attempt was rejected", hostile}, Stopped: true,
	}}
	for i, loss := range []string{"0", "1%", "10%"} {
		for repetition := 1; repetition <= 3; repetition++ {
			labels := record.Labels{"loss": loss, "cc": "cubic"}
			b.Samples = append(b.Samples, record.Sample{Labels: labels, Subject: "aggregate", Metric: "goodput", Unit: record.BitPerSecond,
				Repetition: repetition, Attempt: 1, Value: 900e6/float64(1+10*i) + float64(repetition)*1e6, Valid: true})
			b.Points = append(b.Points, record.Point{Labels: labels, Subject: "flow", Metric: "cwnd", Unit: record.Count,
				Repetition: repetition, Attempt: 1, At: time.Duration(repetition) * 100 * time.Millisecond, Value: float64(10 * repetition)})
			h := &hist.Histogram{}
			for k := range uint64(1000) {
				h.Record(200_000 + k*k)
			}
			b.Distributions = append(b.Distributions, record.Distribution{Labels: labels, Subject: "flow", Metric: "rtt",
				Unit: record.Seconds, Repetition: repetition, Attempt: 1, Valid: true, Histogram: h})
		}
	}
	b.Samples = append(b.Samples,
		record.Sample{Labels: record.Labels{"loss": hostile}, Subject: hostile, Metric: "goodput", Unit: record.BitPerSecond,
			Repetition: 1, Attempt: 2, Value: 5, Valid: false, Reason: "the emulator dropped 3 frames"},
		record.Sample{Subject: "link", Metric: "loss", Unit: record.Share, Repetition: 1, Attempt: 1, Value: 0.01, Valid: true})
	b.Distributions = append(b.Distributions, record.Distribution{Subject: "empty", Unit: record.Seconds, Histogram: &hist.Histogram{}})
	b.Verdicts = []record.Verdict{
		{Name: "CUBIC falls", Labels: record.Labels{"loss": "1%"}, Expected: "60-80 %", Measured: "71 %", Outcome: record.Holds},
		{Name: hostile, Expected: "<= 10 %", Measured: "12 %", Outcome: record.Fails, Reason: "BBR fell too far"},
		{Name: "at 10 %", Expected: "> 0", Measured: "–", Outcome: record.NotMeasured, Reason: "this machine carries 500 Mbit/s only"},
	}
	b.Tables = []record.Table{{Title: "Goodput", Note: "mean", Columns: []string{"loss", "goodput"}, Rows: [][]string{{"1%", "373 Mbit/s"}, {hostile, "0"}}}}
	b.Figures = []record.Figure{{Name: "goodput-by-loss", Title: "Goodput", Kind: record.Lines, XLabel: "loss", YLabel: "goodput",
		XUnit: record.Share, YUnit: record.BitPerSecond, Curves: []record.Curve{
			{Name: "cubic", X: []float64{0, 0.01}, Y: []float64{900e6, 373e6}, Low: []float64{890e6, 300e6}, High: []float64{910e6, 420e6}},
			{Name: hostile, X: []float64{0, 0.01}, Y: []float64{900e6, 880e6}, Reference: true}}}}
	b.Proofs = []record.Proof{{Labels: record.Labels{"loss": "1%"}, Repetition: 1, Attempt: 1, Why: "every frame is accounted for", Configuration: "00ff", Frames: 7,
		Links: []record.ProofLink{{Link: hostile, Sent: 7, Received: 7, LossDrops: 1, Passed: 6, Arrived: 6}}}}
	return b
}

// series returns n points of a few runs.
func series(n int) []record.Point {
	points := make([]record.Point, n)
	for i := range points {
		points[i] = record.Point{Labels: record.Labels{"loss": fmt.Sprintf("%d%%", i*10/n), "cc": "cubic"}, Subject: "flow", Metric: "cwnd",
			Unit: record.Count, Repetition: 1, Attempt: 1, At: time.Duration(i) * time.Millisecond, Value: float64(i % 977)}
	}
	return points
}
