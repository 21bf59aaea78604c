// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"

	"weir/record"
)

var sampleColumns = []string{"subject", "metric", "unit", "repetition", "attempt", "value", "valid", "reason"}

// WriteCSV writes samples as a table: a column per label in alphabetical order, then the fixed
// ones. A label with the name of a fixed column is written as label_NAME. Values are in base units
// with all their digits.
func WriteCSV(w io.Writer, samples []record.Sample) error {
	seen := map[string]bool{}
	for _, s := range samples {
		for key := range s.Labels {
			seen[key] = true
		}
	}
	keys := slices.Sorted(maps.Keys(seen))
	header := make([]string, 0, len(keys)+len(sampleColumns))
	for _, key := range keys {
		if slices.Contains(sampleColumns, key) {
			key = "label_" + key
		}
		header = append(header, key)
	}
	writer := csv.NewWriter(w)
	if err := writer.Write(append(header, sampleColumns...)); err != nil {
		return err
	}
	cells := make([]string, 0, cap(header))
	for _, s := range samples {
		cells = cells[:0]
		for _, key := range keys {
			cells = append(cells, s.Labels[key])
		}
		cells = append(cells, s.Subject, s.Metric, string(s.Unit), strconv.Itoa(s.Repetition), strconv.Itoa(s.Attempt),
			strconv.FormatFloat(s.Value, 'g', -1, 64), strconv.FormatBool(s.Valid), s.Reason)
		if err := writer.Write(cells); err != nil {
			return err
		}
	}
	writer.Flush()
	return writer.Error()
}
