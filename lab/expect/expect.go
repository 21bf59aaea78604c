// SPDX-License-Identifier: Apache-2.0

// Package expect knows what a scenario can expect of a measured figure: one file per kind of
// expectation, and one list of them in kinds.go.
//
// A kind's file holds everything about it: its keys in a scenario and their validation, its words
// for people, and how an estimate, a mean with its interval, is judged. The package is pure.
package expect

import (
	"reflect"
	"strings"

	"weir/internal/yamlfile"
	"weir/record"
)

// Estimate is a measured figure in base units, or a ratio of two: the mean and its 95 % interval,
// nil where there is none.
type Estimate struct {
	Mean      float64
	Low, High *float64
}

// kind is one way to judge an estimate, with its parameters.
type kind interface {
	// given says whether the expectation is of this kind.
	given() bool
	// words follow what is measured and a colon: "at least 5 Mbit/s".
	words(unit record.Unit) string
	// judge returns the outcome, and what a reader must know of its certainty, or "".
	judge(Estimate) (record.Outcome, string)
}

// Words says what is expected: "at least 5 Mbit/s".
func (s Statement) Words(unit record.Unit) string {
	var all []string
	for _, k := range s.each() {
		if k.given() {
			all = append(all, k.words(unit))
		}
	}
	return strings.Join(all, ", ")
}

// Judge compares an estimate with what is expected. The reason says what a reader must know of the
// outcome's certainty; "" if it is certain.
func (s Statement) Judge(e Estimate) (outcome record.Outcome, reason string) {
	for _, k := range s.each() {
		if k.given() {
			return k.judge(e)
		}
	}
	return record.Holds, ""
}

// byMean is the verdict rule for kinds that compare the mean with bounds: the mean decides, and the
// reason says where the interval reaches across a bound, or that there is none.
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

// Draft is what a scenario expects of one metric.
type Draft struct {
	Path     string         // of the expectation, for messages: "expect[0]"
	Place    yamlfile.Place // of the expectation
	Complain func(at yamlfile.Place, try, format string, args ...any)
	// Quantity reads a figure in the metric's unit, or a ratio; it complains and returns nil where
	// it is none, or where there is no text.
	Quantity func(text *yamlfile.Text, path string) *float64
}

// keysOf are one kind's keys, as they were read.
type keysOf interface {
	// ways says which keys to give: "min, max or both".
	ways() string
	// read puts the kind into the statement, and says whether the file names it.
	read(*Draft, *Statement) bool
}

// Read makes a statement of the keys, and complains of mistakes.
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
