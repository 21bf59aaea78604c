// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"strconv"
	"strings"

	"weir/internal/units"
	"weir/record"
	"weir/record/summary"
)

// axis is a parameter's values as positions on an axis.
type axis struct {
	parameter string
	values    []string           // as the scenario writes them, in order
	at        map[string]float64 // by value
	unit      record.Unit
	names     []string // the values, where they are no quantities and stand at 0, 1, 2 ...
}

// axisOf places values: as quantities where all of them are of one kind, side by side where they
// are not.
func axisOf(parameter string, values []string) axis {
	a := axis{parameter: parameter, values: slices.Clone(values), at: map[string]float64{}}
	slices.SortFunc(a.values, summary.Compare)
	for i, value := range a.values {
		at, unit, ok := quantity(value)
		if !ok || i > 0 && unit != a.unit {
			return categories(a)
		}
		a.unit, a.at[value] = unit, at
	}
	return a
}

func categories(a axis) axis {
	a.unit, a.names, a.at = record.Count, a.values, map[string]float64{}
	for i, value := range a.values {
		a.at[value] = float64(i)
	}
	return a
}

// percent is the unit of shares along an axis.
const percent record.Unit = "%"

// quantity reads a value of a parameter: "1%", "20ms", "100 Mbit/s", "64KiB" or a number.
func quantity(text string) (float64, record.Unit, bool) {
	if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
		return v, record.Count, true
	}
	if v, err := units.ParseProbability(text); err == nil {
		return 100 * float64(v), percent, true
	}
	if v, err := units.ParseDuration(text); err == nil {
		return v.Seconds(), record.Seconds, true
	}
	if v, err := units.ParseBitRate(text); err == nil {
		return float64(v), record.BitPerSecond, true
	}
	if v, err := units.ParseByteSize(text); err == nil {
		return float64(v), record.Bytes, true
	}
	return 0, "", false
}
