// SPDX-License-Identifier: Apache-2.0

// Package expect defines the expectations of a scenario: one file per kind, listed in kinds.go.
//
// The file of a kind holds its keys in a scenario, their validation, its text for reports, and its
// judge of an estimate (a mean with its interval). The package is pure.
package expect

import (
	"reflect"
	"strings"

	"weir/internal/yamlfile"
	"weir/record"
)

// Estimate is a measured figure in base units, or a ratio of two: the mean and its 95 % interval,
// which is nil if there is none.
type Estimate struct {
	Mean      float64
	Low, High *float64
}

// kind is one rule of judgement with its parameters.
type kind interface {
	// given reports whether the expectation is of this kind.
	given() bool
	// words is the text after the metric and a colon: "at least 5 Mbit/s".
	words(unit record.Unit) string
	// judge returns the outcome, and a remark on its certainty or "".
	judge(Estimate) (record.Outcome, string)
}

// Words returns the expectation as text: "at least 5 Mbit/s".
func (s Statement) Words(unit record.Unit) string {
	var all []string
	for _, k := range s.each() {
		if k.given() {
			all = append(all, k.words(unit))
		}
	}
	return strings.Join(all, ", ")
}

// Judge compares an estimate with the expectation. The reason qualifies the outcome's certainty; ""
// means certain.
func (s Statement) Judge(e Estimate) (outcome record.Outcome, reason string) {
	for _, k := range s.each() {
		if k.given() {
			return k.judge(e)
		}
	}
	return record.Holds, ""
}

// byMean is the verdict rule for kinds with bounds: the mean decides. The reason reports an
// interval that reaches across a bound, or a missing interval.
func byMean(holds bool, e Estimate, bounds ...*float64) (outcome record.Outcome, reason string) {
	outcome = record.Fails
	if holds {
		outcome = record.Holds
	}
	if e.Low == nil || e.High == nil {
		return outcome, "too few repetitions for an interval"
	}
	for _, bound := range bounds {
		if bound != nil && *e.Low < *bound && *bound < *e.High {
			return outcome, "the 95 % interval reaches across the bound: more repetitions would make it certain"
		}
	}
	return outcome, ""
}

// Draft describes the expectation that a scenario states of one metric.
type Draft struct {
	Path     string         // of the expectation, for messages: "expect[0]"
	Place    yamlfile.Place // of the expectation
	Complain func(at yamlfile.Place, try, format string, args ...any)
	// Quantity reads a figure in the metric's unit, or a ratio. It reports an error and returns nil
	// for other text; without text it returns nil.
	Quantity func(text *yamlfile.Text, path string) *float64
}

// keysOf holds one kind's keys as read from the file.
type keysOf interface {
	// ways names the keys to give: "min, max or both".
	ways() string
	// read copies the kind into the statement, and reports whether the file names it.
	read(*Draft, *Statement) bool
}

// Read makes a statement from the keys and reports mistakes.
func (k *Keys) Read(d *Draft) (out Statement) {
	given, ways := 0, []string{}
	for _, keys := range k.each() {
		if keys.read(d, &out) {
			given++
		}
		ways = append(ways, keys.ways())
	}
	switch {
	case given == 0:
		d.Complain(d.Place, "add "+strings.Join(ways, ", or "), "%s: neither %s is given", d.Path,
			strings.Join(yamlfile.Keys(reflect.TypeFor[Keys]()), " nor "))
	case given > 1:
		d.Complain(d.Place, "keep one: "+strings.Join(ways, ", or "), "%s: %d kinds of expectation are given; it has one", d.Path, given)
	}
	return out
}
