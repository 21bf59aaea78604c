// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"testing"

	"weir/record"
)

// The parser itself rejects a truncated file, without a panic and without returning fewer rows.
func TestParserRefusesCutOffRows(t *testing.T) {
	samples := make([]record.Sample, 300)
	for i := range samples {
		samples[i] = record.Sample{Labels: record.Labels{"loss": "1%"}, Subject: "flow", Metric: "goodput", Value: float64(i), Valid: true}
	}
	var file bytes.Buffer
	if err := writeSamples(&file, samples); err != nil {
		t.Fatal(err)
	}
	for size := range file.Len() {
		if read, err := readSamples(file.Bytes()[:size]); err == nil {
			t.Fatalf("cut to %d of %d bytes, %d rows were read", size, file.Len(), len(read))
		}
	}
}
