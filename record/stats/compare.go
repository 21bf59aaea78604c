// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Difference is the difference of the means of two independent sets: second minus first, in the
// unit of the values. Low, High (95 %, Welch) and P are nil if a set has fewer than two values.
type Difference struct {
	Value       float64  `json:"value"`
	Low         *float64 `json:"low,omitempty"`
	High        *float64 `json:"high,omitempty"`
	P           *float64 `json:"p,omitempty"` // two-sided: probability of such a difference by chance
	Significant bool     `json:"significant"` // P below 5 %, for this one comparison
}

// Welch compares the means of two independent sets with Welch's t test, which does not require
// equal variances. Two sets without any spread differ significantly if they are not equal. An empty
// set gives the zero Difference.
func Welch(a, b []float64) Difference {
	if len(a) == 0 || len(b) == 0 {
		return Difference{}
	}
	x, y := sampleOf(a), sampleOf(b)
	d := Difference{Value: y.mean - x.mean}
	if len(a) < 2 || len(b) < 2 {
		return d
	}
	spread := math.Sqrt(x.square + y.square)
	var p, half float64
	switch {
	case spread > 0:
		freedom := satterthwaite(x, y, 1)
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}
		p = 2 * t.Survival(math.Abs(d.Value)/spread)
		half = quantileT(freedom) * spread
	case d.Value == 0:
		p = 1
	}
	d.Low, d.High, d.P = pointer(d.Value-half), pointer(d.Value+half), pointer(min(p, 1))
	d.Significant = p < 1-Confidence
	return d
}

// sample holds the inputs of the two-sample formulas for one set.
type sample struct {
	mean   float64
	square float64 // squared standard error of the mean
	n      float64
}

func sampleOf(values []float64) sample {
	mean, variance := moments(values)
	n := float64(len(values))
	return sample{mean: mean, square: variance / n, n: n}
}

// satterthwaite returns the degrees of freedom of x.mean − factor·y.mean. At least one must have a
// spread.
func satterthwaite(x, y sample, factor float64) float64 {
	u, v := x.square, factor*factor*y.square
	total := u + v
	u, v = u/total, v/total // shares, so that the squares stay in range
	return 1 / (u*u/(x.n-1) + v*v/(y.n-1))
}

// RatioEstimate is the ratio of two means with its uncertainty: "goodput with 1 % loss over goodput
// without". Low and High are nil if the interval does not exist: see [Ratio].
type RatioEstimate struct {
	N     int      `json:"n"`
	BaseN int      `json:"base_n"`
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// Ratio estimates mean(values)/mean(base) of two independent sets, with Fieller's 95 % interval and
// Satterthwaite's degrees of freedom. ok is false if a set is empty or the mean of base is 0.
//
// There is no interval if a set has fewer than two values, or if the base is not significantly
// different from 0: the data then do not bound the ratio.
func Ratio(values, base []float64) (r RatioEstimate, ok bool) {
	r = RatioEstimate{N: len(values), BaseN: len(base)}
	if r.N == 0 || r.BaseN == 0 {
		return r, false
	}
	x, y := sampleOf(values), sampleOf(base)
	if y.mean == 0 {
		return r, false
	}
	r.Value = x.mean / y.mean
	if r.N > 1 && r.BaseN > 1 {
		r.Low, r.High = fieller(x, y)
	}
	return r, true
}

// fieller solves (x − r·y)² = t²·(sx² + r²·sy²) for r (Fieller 1954, independent means).
func fieller(x, y sample) (low, high *float64) {
	ratio := x.mean / y.mean
	if x.square == 0 && y.square == 0 {
		return pointer(ratio), pointer(ratio)
	}
	t := quantileT(satterthwaite(x, y, ratio))
	if x.mean == 0 && x.square == 0 {
		return pointer(0), pointer(0) // 0 over anything that is not 0
	}
	g := t * t * y.square / (y.mean * y.mean)
	if g >= 1 {
		return nil, nil
	}
	root := math.Sqrt(max(x.square*(1-g)+ratio*ratio*y.square, 0))
	half := t / math.Abs(y.mean) * root
	return pointer((ratio - half) / (1 - g)), pointer((ratio + half) / (1 - g))
}

// Holm adjusts the p values of several simultaneous comparisons. Values below 5 % are then
// significant with an error probability of at most 5 % for the whole family (Holm 1979). The result
// is in the order of p.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(p))
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(p[i]*float64(len(p)-rank), 1))
		adjusted[i] = highest
	}
	return adjusted
}
