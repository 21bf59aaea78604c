// SPDX-License-Identifier: Apache-2.0

// Package alloc divides the rates of shared limits among the claims of hosts: weighted max-min
// fairness with guarantees and ceilings over a tree of limits, as in BwE (Kumar et al., SIGCOMM
// 2015).
//
// Rates are in bit/s. A limit divides its rate among its claims and the limits below it: each gets
// its weight times a level, at least its guarantee and at most its ceiling, and the level is the
// highest at which the sum fits. The functions are pure and may be called concurrently.
package alloc

import (
	"cmp"
	"math"
	"slices"
)

// Limit is one shared limit. Limits are listed with parents before their children.
type Limit struct {
	Rate   float64 // capacity, and ceiling within the parent
	Parent int     // index of the parent; -1 without one
	Min    float64 // guarantee within the parent
	Weight float64 // within the parent; 0 counts as 1
}

// Claim is the part of one host's scope in a shared limit.
type Claim struct {
	Limit  int     // index of its limit
	Min    float64 // guarantee
	Max    float64 // ceiling
	Weight float64 // 0 counts as 1
	Demand float64 // bit/s that the scope would use; +Inf if unknown
}

// Fill returns the allocation of each claim: at most its demand and ceiling, at least the lower of
// demand and guarantee, and in each subtree at most the limit's rate. Guarantees that exceed a rate
// are scaled down to it.
func Fill(limits []Limit, claims []Claim) []float64 {
	f := newFiller(limits, claims)
	for i := len(limits) - 1; i >= 0; i-- { // children before their parents
		f.aggregate(i)
	}
	for i, l := range limits {
		if l.Parent < 0 {
			f.given[i] = f.shares[f.ofLimit[i]].high
		}
		f.divide(i)
	}
	return f.allocated
}

// WithSpare raises the allocation of Fill to use all rates, up to the ceilings: after a rise of
// its demand, a host finds spare rate without waiting for the next allocation.
func WithSpare(limits []Limit, claims []Claim) []float64 {
	filled := Fill(limits, claims)
	lifted := slices.Clone(claims)
	for i := range lifted {
		lifted[i].Min, lifted[i].Demand = filled[i], math.Inf(1)
		lifted[i].Max = max(lifted[i].Max, filled[i])
	}
	return Fill(limits, lifted)
}

// share is one child of a limit: a claim or a limit.
type share struct {
	low, high, weight float64
}

// filler holds the shares by limit. shares lists claims first, then limits.
type filler struct {
	limits    []Limit
	shares    []share
	ofLimit   []int   // index in shares of each limit
	children  [][]int // indices in shares, by limit
	given     []float64
	allocated []float64
}

func newFiller(limits []Limit, claims []Claim) *filler {
	f := &filler{limits: limits, shares: make([]share, len(claims)+len(limits)), ofLimit: make([]int, len(limits)),
		children: make([][]int, len(limits)), given: make([]float64, len(limits)), allocated: make([]float64, len(claims))}
	for i, c := range claims {
		high := max(0, min(c.Demand, c.Max))
		f.shares[i] = share{min(c.Min, high), high, weightOf(c.Weight)}
		f.children[c.Limit] = append(f.children[c.Limit], i)
	}
	for i, l := range limits {
		f.ofLimit[i] = len(claims) + i
		if l.Parent >= 0 {
			f.children[l.Parent] = append(f.children[l.Parent], f.ofLimit[i])
		}
	}
	return f
}

func weightOf(w float64) float64 {
	if w <= 0 {
		return 1
	}
	return w
}

// aggregate computes guarantee and ceiling of a limit from those of its children.
func (f *filler) aggregate(i int) {
	var low, high float64
	for _, c := range f.children[i] {
		low, high = low+f.shares[c].low, high+f.shares[c].high
	}
	l := f.limits[i]
	high = max(0, min(high, l.Rate))
	f.shares[f.ofLimit[i]] = share{min(max(low, l.Min), high), high, weightOf(l.Weight)}
}

// divide divides the rate given to a limit among its children.
func (f *filler) divide(i int) {
	children := f.children[i]
	level, scale := f.level(children, f.given[i])
	for _, c := range children {
		s := f.shares[c]
		rate := scale * min(max(s.weight*level, s.low), s.high)
		if c < len(f.allocated) {
			f.allocated[c] = rate
		} else {
			f.given[c-len(f.allocated)] = rate
		}
	}
}

// level returns the rate per unit of weight at which the children use the given rate; +Inf if all
// reach their ceilings. scale is below 1 if their guarantees exceed the given rate.
func (f *filler) level(children []int, given float64) (level, scale float64) {
	type step struct{ at, weight float64 } // from this level on, the sum grows by weight more per unit
	steps := make([]step, 0, 2*len(children))
	var sum, high, slope float64
	for _, c := range children {
		s := f.shares[c]
		sum, high = sum+s.low, high+s.high
		if s.high > s.low {
			steps = append(steps, step{s.low / s.weight, s.weight}, step{s.high / s.weight, -s.weight})
		}
	}
	if sum >= given {
		if sum == 0 {
			return 0, 1
		}
		return 0, given / sum
	}
	if high <= given {
		return math.Inf(1), 1
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	var at float64
	for _, s := range steps {
		if math.IsInf(s.at, 1) {
			break
		}
		if grown := sum + slope*(s.at-at); grown >= given {
			break
		} else {
			sum, at = grown, s.at
		}
		slope += s.weight
	}
	if slope <= 0 {
		return at, 1
	}
	return at + (given-sum)/slope, 1
}
