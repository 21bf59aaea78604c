// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"
	"testing"

	"weir/record"
	"weir/record/summary"
)

func TestRatioTellsBothNumbersOfRuns(t *testing.T) {
	var samples []record.Sample
	for loss, values := range map[string][]float64{"0%": {10, 11, 12}, "1%": {4, 5}} {
		for i, v := range values {
			samples = append(samples, record.Sample{Labels: record.Labels{"loss": loss}, Subject: "bulk", Metric: "goodput", Unit: record.BitPerSecond, Repetition: i + 1, Value: v, Valid: true})
		}
	}
	rows := summary.Rows(samples)
	row, _ := summary.Find(rows, record.Labels{"loss": "1%"}, "bulk", "goodput")
	if f, missing := measured(rows, row, record.Labels{"loss": "0%"}); missing != "" || !strings.Contains(f.text(), "n = 2 / 3") {
		t.Errorf("%q, %q", f.text(), missing)
	}
	if f, _ := measured(rows, row, nil); !strings.HasSuffix(f.text(), ", n = 2)") {
		t.Errorf("a mean: %q", f.text())
	}
}
