// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"weir/internal/yamlfile"
	"weir/record"
)

// Bounds expects at least Min, at most Max, or both, in base units or as a ratio. The mean decides.
type Bounds struct{ Min, Max *float64 }

type boundsKeys struct {
	Min *yamlfile.Text `yaml:"min" doc:"Least value, in the metric's unit (10Mbit, 5ms, 1%), or with relative_to the least ratio (0.5, 50%). One of min and max is needed."`
	Max *yamlfile.Text `yaml:"max" doc:"Greatest value, or greatest ratio."`
}

func (*boundsKeys) ways() string { return "min, max or both" }

func (k *boundsKeys) read(d *Draft, s *Statement) bool {
	s.Bounds = Bounds{d.Quantity(k.Min, d.Path+".min"), d.Quantity(k.Max, d.Path+".max")}
	if s.Min != nil && s.Max != nil && *s.Min > *s.Max {
		d.Complain(k.Min.Place, "", "%s: min is above max", d.Path)
	}
	return k.Min != nil || k.Max != nil
}

func (b Bounds) given() bool { return b.Min != nil || b.Max != nil }

func (b Bounds) words(unit record.Unit) string {
	switch {
	case b.Min == nil:
		return "at most " + unit.Format(*b.Max)
	case b.Max == nil:
		return "at least " + unit.Format(*b.Min)
	}
	return unit.Format(*b.Min) + " to " + unit.Format(*b.Max)
}

func (b Bounds) judge(e Estimate) (record.Outcome, string) {
	holds := (b.Min == nil || e.Mean >= *b.Min) && (b.Max == nil || e.Mean <= *b.Max)
	return byMean(holds, e, b.Min, b.Max)
}
