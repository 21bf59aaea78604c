// SPDX-License-Identifier: Apache-2.0

package module

import (
	"encoding/json"
	"fmt"
	"math"

	"weir/core/policy"
)

// Kind says how a column's values move.
type Kind string

const (
	Counter   Kind = "counter"   // a number that grows; tables of changes show it per second
	Gauge     Kind = "gauge"     // what it is now
	Histogram Kind = "histogram" // counts of values by size, which grow
)

// Unit is what a column counts or measures.
type Unit string

const (
	Octets       Unit = "octets"
	Packets      Unit = "packets"
	Events       Unit = ""
	BitPerSecond Unit = "bit/s"
	Seconds      Unit = "s"
	Sockets      Unit = "sockets"
)

// Column declares one value that a room reports of every row. Status, top, JSON, the API and
// metrics are made from it.
type Column struct {
	Name string `json:"name"` // in JSON
	Help string `json:"help"` // one sentence
	Unit Unit   `json:"unit"`
	Kind Kind   `json:"kind"`
	// Title heads the column in tables of weir status and weir top; "" shows it in neither. Status
	// and Top leave it out of one.
	Title    string `json:"title,omitempty"`
	NoStatus bool   `json:"-"`
	NoTop    bool   `json:"-"`
	// Of names the gauge that top shows this counter's rate as a share of; rows with the largest
	// shares come first.
	Of string `json:"share_of,omitempty"`
	// Alarm has what is above 0 stand out in top.
	Alarm bool `json:"-"`
	// Bypass names what a counter of the host counts, if it is traffic that went around what scopes
	// promise; weir prove looks whether it grows.
	Bypass string `json:"-"`
	// Metric is the metric's name without its prefix; "" makes it of Name, Unit and Kind.
	Metric string `json:"metric,omitempty"`
}

// Columns are what a room reports.
type Columns struct {
	Rows []Column
	// Host are values of the host and no row.
	Host []Column
	// Part is what rows of one scope differ by, as a title and a label of metrics: "direction". ""
	// if a scope has one row.
	Part string
	// Promise heads what rows promise; "" where they promise nothing.
	Promise string
	// Prefix begins the names of metrics, behind "weir_"; "" is the room's name.
	Prefix string
}

// Report is what a room has to tell.
type Report struct {
	Rows []Row
	Host []Value  // one for each of Columns.Host; nil where nothing is known
	Note []string // sentences for people, about what Host holds
}

// Row is what is known of one scope or of a part of it.
type Row struct {
	Scope string
	Part  string
	// Promise is what a person reads of what the row promises: "10 Mbit/s".
	Promise string
	// Values has one for each column of the room; nil where nothing is known of the row.
	Values []Value
}

// Value is one value. The zero value is not known.
type Value struct {
	Known     bool
	Count     uint64 // a counter's
	Number    float64
	Histogram *Buckets
}

// Counted is a counter's value.
func Counted(n uint64) Value { return Value{Known: true, Count: n, Number: float64(n)} }

// CountedOf is the value of a field that counts.
func CountedOf[T any](of func(T) uint64) func(T) Value {
	return func(from T) Value { return Counted(of(from)) }
}

// Measured is a gauge's value.
func Measured(x float64) Value { return Value{Known: true, Number: x} }

// empty is what all histograms without a count share.
var empty Buckets

// Spread is a histogram's value, which is not to be changed.
func HistogramValue(b Buckets) Value {
	if b == empty {
		return Value{Known: true, Histogram: &empty}
	}
	counted := b // so that only these are on the heap
	return Value{Known: true, Histogram: &counted}
}

// MarshalJSON writes the number alone, null where it is not known.
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

// Buckets count values by powers of two of a microsecond: [2^i, 2^(i+1)) µs in entry i, below 2 µs
// in entry 0.
type Buckets struct {
	Counts [32]uint64 `json:"counts"`
	// Sum of the values in seconds; 0 where only the counts are known.
	Sum float64 `json:"sum_s,omitempty"`
}

// Since is what was counted after an earlier reading; the sum is lost.
func (b Buckets) Since(before Buckets) (since Buckets) {
	for i, n := range b.Counts {
		since.Counts[i] = n - min(before.Counts[i], n)
	}
	return since
}

// Percentile is the upper bound, in seconds, of the bucket in which the share p (0 to 1) of the
// counts is reached; 0 without counts. It is at most twice the true value.
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

// Field is a column and where its value comes from: a room declares each value once, by a table of
// fields.
type Field[T any] struct {
	Column
	Value func(T) Value
}

// ColumnsOf are the columns of fields.
func ColumnsOf[T any](fields []Field[T]) (all []Column) {
	for _, f := range fields {
		all = append(all, f.Column)
	}
	return all
}

// ValuesOf reads all fields of one thing.
func ValuesOf[T any](fields []Field[T], of T) []Value {
	all := make([]Value, len(fields))
	for i, f := range fields {
		all[i] = f.Value(of)
	}
	return all
}

// Sums are what was counted of each scope, by name, where one scope alone counts what applies to
// several: a group's is the sum of its members' that are treated the same.
func Sums[T any](have State, count func(index int) (T, error), add func(*T, T), same func(a, b Bound) bool) (map[string]T, error) {
	sums, named := make(map[string]T, len(have.Scopes)), have.ByName()
	for _, b := range have.Scopes {
		own, err := count(b.Index)
		if err != nil {
			return nil, fmt.Errorf("scope %s: %w", b.Name, err)
		}
		for at, is := b, true; is && same(at, b); at, is = named[at.Parent] {
			if at.Name != b.Name && at.Selector.Kind != policy.Group {
				break // it has counts of its own
			}
			sum := sums[at.Name]
			add(&sum, own)
			sums[at.Name] = sum
		}
	}
	return sums, nil
}
