// SPDX-License-Identifier: Apache-2.0

package module

import (
	"encoding/json"
	"fmt"
	"math"

	"weir/core/policy"
)

// Kind is the type of a column.
type Kind string

const (
	Counter   Kind = "counter"   // a growing number; tables of changes show its rate
	Gauge     Kind = "gauge"     // a current value
	Histogram Kind = "histogram" // growing counts by size
)

// Unit is the unit of a column.
type Unit string

const (
	Octets       Unit = "octets"
	Packets      Unit = "packets"
	Events       Unit = ""
	BitPerSecond Unit = "bit/s"
	Seconds      Unit = "s"
	Sockets      Unit = "sockets"
)

// Column declares one value of every row of a module. Status, top, JSON, API and metrics are
// generated from it.
type Column struct {
	Name string `json:"name"` // in JSON
	Help string `json:"help"` // one sentence
	Unit Unit   `json:"unit"`
	Kind Kind   `json:"kind"`
	// Title heads the column in the tables of weir status and weir top; "" omits it. NoStatus and
	// NoTop omit it from one table.
	Title    string `json:"title,omitempty"`
	NoStatus bool   `json:"-"`
	NoTop    bool   `json:"-"`
	// Of names the gauge to which top relates the rate of this counter. Rows are sorted by that
	// ratio.
	Of string `json:"share_of,omitempty"`
	// Alarm makes top highlight values above 0.
	Alarm bool `json:"-"`
	// Bypass names the bypass that a counter of the host counts; weir prove checks whether it
	// grows.
	Bypass string `json:"-"`
	// Metric is the metric's name without prefix; "" derives it from Name, Unit and Kind.
	Metric string `json:"metric,omitempty"`
}

// Columns declares the values that a module reports.
type Columns struct {
	Rows []Column
	// Host declares values of the host.
	Host []Column
	// Part names the property that distinguishes the rows of a scope, for titles and metric labels:
	// "direction". "" if a scope has one row.
	Part string
	// Promise heads the column of promises; "" if rows have none.
	Promise string
	// Prefix starts the names of metrics, after "weir_"; "" is the module's name.
	Prefix string
}

// Report holds the values of a module.
type Report struct {
	Rows []Row
	Host []Value  // one for each of Columns.Host; nil if unknown
	Note []string // sentences for the user about Host
}

// Row holds the values of one scope or of a part of it.
type Row struct {
	Scope string
	Part  string
	// Promise describes the promise of the row: "10 Mbit/s".
	Promise string
	// Mode names the way in which the promise is kept, and Reason why it is no better one; "" for
	// none.
	Mode, Reason string
	// Values has one value for each column of the module; nil if unknown.
	Values []Value
}

// Value is one value. The zero value is unknown.
type Value struct {
	Known     bool
	Count     uint64 // of a counter
	Number    float64
	Histogram *Buckets
}

// Counted returns the value of a counter.
func Counted(n uint64) Value { return Value{Known: true, Count: n, Number: float64(n)} }

// CountedOf returns the value of a field that counts.
func CountedOf[T any](of func(T) uint64) func(T) Value {
	return func(from T) Value { return Counted(of(from)) }
}

// Measured returns the value of a gauge.
func Measured(x float64) Value { return Value{Known: true, Number: x} }

// empty is shared by all histograms without a count.
var empty Buckets

// HistogramValue returns the value of a histogram. It must not be changed.
func HistogramValue(b Buckets) Value {
	if b == empty {
		return Value{Known: true, Histogram: &empty}
	}
	counted := b // allocated only if needed
	return Value{Known: true, Histogram: &counted}
}

// MarshalJSON writes the number, or null if it is unknown.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case !v.Known:
		return []byte("null"), nil
	case v.Histogram != nil:
		return json.Marshal(v.Histogram)
	case v.Count != 0:
		return json.Marshal(v.Count)
	}
	return json.Marshal(v.Number)
}

// Buckets counts values by powers of two of a microsecond: [2^i, 2^(i+1)) µs in entry i, below 2 µs
// in entry 0.
type Buckets struct {
	Counts [32]uint64 `json:"counts"`
	// Sum of the values in seconds; 0 if only the counts are known.
	Sum float64 `json:"sum_s,omitempty"`
}

// Since returns the counts since an earlier reading, without a sum.
func (b Buckets) Since(before Buckets) (since Buckets) {
	for i, n := range b.Counts {
		since.Counts[i] = n - min(before.Counts[i], n)
	}
	return since
}

// Percentile returns the upper bound, in seconds, of the bucket that reaches the share p (0 to 1)
// of the counts; 0 without counts. It is at most twice the true value.
func (b Buckets) Percentile(p float64) float64 {
	total, reached := uint64(0), uint64(0)
	for _, n := range b.Counts {
		total += n
	}
	for i, n := range b.Counts {
		if reached += n; total > 0 && float64(reached) >= p*float64(total) {
			return math.Ldexp(1e-6, i+1)
		}
	}
	return 0
}

// Field is a column with the source of its value, so that a module declares each value once in a
// table of fields.
type Field[T any] struct {
	Column
	Value func(T) Value
}

// ColumnsOf returns the columns of fields.
func ColumnsOf[T any](fields []Field[T]) (all []Column) {
	for _, f := range fields {
		all = append(all, f.Column)
	}
	return all
}

// ValuesOf returns the values of all fields.
func ValuesOf[T any](fields []Field[T], of T) []Value {
	all := make([]Value, len(fields))
	for i, f := range fields {
		all[i] = f.Value(of)
	}
	return all
}

// Sums returns the counters of each scope by name, for data planes in which only one of several
// matching scopes counts: a group sums its members with the same treatment.
func Sums[T any](have State, count func(index int) (T, error), add func(*T, T), same func(a, b Bound) bool) (map[string]T, error) {
	sums, named := make(map[string]T, len(have.Scopes)), have.ByName()
	for _, b := range have.Scopes {
		own, err := count(b.Index)
		if err != nil {
			return nil, fmt.Errorf("scope %s: %w", b.Name, err)
		}
		for at, is := b, true; is && same(at, b); at, is = named[at.Parent] {
			if at.Name != b.Name && at.Selector.Kind != policy.Group {
				break // it counts itself
			}
			sum := sums[at.Name]
			add(&sum, own)
			sums[at.Name] = sum
		}
	}
	return sums, nil
}
