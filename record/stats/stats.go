// SPDX-License-Identifier: Apache-2.0

// Package stats turns repeated measurements into estimates with 95 % confidence intervals, and
// compares sets of them.
//
// Intervals are Student-t intervals: they assume independent repetitions with a roughly normal
// mean, and with three repetitions they are wide. One repetition has no interval at all; the fields
// are then nil, never NaN.
package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the level of every interval of this package.
const Confidence = 0.95

// Estimate is the mean of repeated measurements with its uncertainty, in the unit of the
// measurements. Low, High (the 95 % interval of the mean) and StdDev (of a single measurement) are
// nil below two repetitions.
type Estimate struct {
	N      int      `json:"n"`
	Mean   float64  `json:"mean"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	StdDev *float64 `json:"std_dev,omitempty"`
}

// Of estimates the mean of values, which must be finite. No values give the zero Estimate.
func Of(values []float64) Estimate {
	e := Estimate{N: len(values)}
	if e.N == 0 {
		return e
	}
	mean, variance := moments(values)
	e.Mean = mean
	if e.N > 1 {
		deviation := math.Sqrt(variance)
		half := quantileT(float64(e.N-1)) * deviation / math.Sqrt(float64(e.N))
		e.Low, e.High, e.StdDev = pointer(mean-half), pointer(mean+half), &deviation
	}
	return e
}

// Interval returns the 95 % interval of the mean. Without one, ok is false and both bounds are the
// mean.
func (e Estimate) Interval() (low, high float64, ok bool) {
	if e.Low == nil || e.High == nil {
		return e.Mean, e.Mean, false
	}
	return *e.Low, *e.High, true
}

// moments returns the mean and the unbiased variance, 0 for a single value.
func moments(values []float64) (mean, variance float64) {
	if len(values) < 2 {
		return stat.Mean(values, nil), 0
	}
	mean, variance = stat.MeanVariance(values, nil)
	if lowest, highest := extremes(values); lowest == highest {
		return lowest, 0 // equal values have no spread, despite rounding
	}
	return mean, variance
}

func extremes(values []float64) (lowest, highest float64) {
	lowest, highest = values[0], values[0]
	for _, v := range values {
		lowest, highest = min(lowest, v), max(highest, v)
	}
	return lowest, highest
}

// quantileT is the two-sided 95 % quantile of Student's t with that many degrees of freedom.
func quantileT(freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile((1 + Confidence) / 2)
}

func pointer(v float64) *float64 { return &v }

// GeoMean returns the geometric mean of positive values; ok is false if there are none or one is
// not positive.
func GeoMean(values []float64) (mean float64, ok bool) {
	for _, v := range values {
		if !(v > 0) {
			return 0, false
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return stat.GeometricMean(values, nil), true
}
