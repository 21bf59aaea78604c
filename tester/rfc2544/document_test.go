// SPDX-License-Identifier: Apache-2.0

package rfc2544_test

import (
	"math"
	"testing"

	"weir/tester/rfc2544"
)

func TestDocumentAndSamplesCarryTheCurveAndWhatLimited(t *testing.T) {
	report := run(t, quick(rfc2544.Throughput, rfc2544.FrameLoss), &device{capacity: 7_440_476}) // half of the line
	d := report.Document()
	if len(d.Throughput) != 1 || d.Throughput[0].LimitedBy != rfc2544.ByDevice || d.Throughput[0].Rate != report.Throughput[0].Rate {
		t.Errorf("throughput %+v", d.Throughput)
	}
	points := d.FrameLoss[0].Points
	if len(points) < 7 || math.Abs(points[0].Loss-0.5) > 0.01 || points[0].Share != 1 || points[len(points)-1].Loss != 0 {
		t.Errorf("loss curve %+v", points)
	}
	found := map[string]int{}
	for _, s := range report.Bundle().Samples {
		if s.Metric == "throughput" && s.Labels["limited by"] == "device" || s.Metric == "frame_loss" && s.Labels["input rate"] != "" {
			found[s.Metric]++
		}
	}
	if found["throughput"] != 1 || found["frame_loss"] != len(points) {
		t.Errorf("samples %v, want one throughput with its limit and %d points", found, len(points))
	}
}
