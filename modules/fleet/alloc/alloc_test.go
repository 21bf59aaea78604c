// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"math"
	"math/rand/v2"
	"testing"
)

const gbit = 1e9

func TestFill(t *testing.T) {
	all := math.Inf(1)
	wan := []Limit{{Rate: 10, Parent: -1}}
	for _, test := range []struct {
		name   string
		limits []Limit
		claims []Claim
		want   []float64
	}{
		{"equal shares", wan, []Claim{{Max: all, Demand: all}, {Max: all, Demand: all}}, []float64{5, 5}},
		{"by weight", wan, []Claim{{Max: all, Demand: all, Weight: 4}, {Max: all, Demand: all, Weight: 1}}, []float64{8, 2}},
		{"low demand", wan, []Claim{{Max: all, Demand: 1}, {Max: all, Demand: all}, {Max: all, Demand: all}}, []float64{1, 4.5, 4.5}},
		{"ceiling", wan, []Claim{{Max: 2, Demand: all}, {Max: all, Demand: all}}, []float64{2, 8}},
		{"guarantee", wan, []Claim{{Min: 7, Max: all, Demand: all}, {Max: all, Demand: all}}, []float64{7, 3}},
		{"unused guarantee", wan, []Claim{{Min: 7, Max: all, Demand: 1}, {Max: all, Demand: all}}, []float64{1, 9}},
		{"guarantees beyond the rate", wan, []Claim{{Min: 15, Max: all, Demand: all}, {Min: 5, Max: all, Demand: all}}, []float64{7.5, 2.5}},
		{"demand below the rate", wan, []Claim{{Max: all, Demand: 1}, {Max: all, Demand: 2}}, []float64{1, 2}},
		{"no claim", wan, nil, []float64{}},
		{"a rack below a backbone", []Limit{{Rate: 10, Parent: -1}, {Rate: 3, Parent: 0}},
			[]Claim{{Limit: 1, Max: all, Demand: all}, {Limit: 1, Max: all, Demand: all}, {Limit: 0, Max: all, Demand: all}}, []float64{1.5, 1.5, 7}},
		{"two racks share by their weights", []Limit{{Rate: 12, Parent: -1}, {Rate: 10, Parent: 0, Weight: 2}, {Rate: 10, Parent: 0}},
			[]Claim{{Limit: 1, Max: all, Demand: all}, {Limit: 2, Max: all, Demand: all}, {Limit: 2, Max: all, Demand: all}}, []float64{8, 2, 2}},
		{"guarantee of a rack", []Limit{{Rate: 10, Parent: -1}, {Rate: 10, Parent: 0, Min: 8}},
			[]Claim{{Limit: 1, Max: all, Demand: all}, {Limit: 0, Max: all, Demand: all}}, []float64{8, 2}},
		{"guarantee within a rack", []Limit{{Rate: 10, Parent: -1}, {Rate: 10, Parent: 0}},
			[]Claim{{Limit: 1, Min: 9, Max: all, Demand: all}, {Limit: 0, Max: all, Demand: all}}, []float64{9, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Fill(test.limits, test.claims)
			if len(got) != len(test.want) {
				t.Fatalf("%v, want %v", got, test.want)
			}
			for i := range got {
				if math.Abs(got[i]-test.want[i]) > 1e-9 {
					t.Fatalf("%v, want %v", got, test.want)
				}
			}
		})
	}
}

func TestSpareRateIsHandedOut(t *testing.T) {
	all := math.Inf(1)
	got := WithSpare([]Limit{{Rate: 10, Parent: -1}}, []Claim{{Max: all, Demand: 1}, {Max: all, Demand: 6}, {Max: 1.5, Demand: 0}})
	if want := []float64{2.5, 6, 1.5}; math.Abs(got[0]-want[0])+math.Abs(got[1]-want[1])+math.Abs(got[2]-want[2]) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
}

// trees is the number of random trees that are compared with the oracle.
const trees = 100_000

func TestRandomTreesAgreeWithTheOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range trees {
		limits, claims := randomTree(random)
		got, want := Fill(limits, claims), bisect(limits, claims)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6*gbit {
				t.Fatalf("seed %d: limits %+v\nclaims %+v\ngot  %v\nwant %v", seed, limits, claims, got, want)
			}
		}
		fits(t, limits, claims, got)
		fits(t, limits, claims, WithSpare(limits, claims))
	}
}

// fits checks that no subtree exceeds its rate.
func fits(t *testing.T, limits []Limit, claims []Claim, got []float64) {
	t.Helper()
	sums := make([]float64, len(limits))
	for i, c := range claims {
		for at := c.Limit; at >= 0; at = limits[at].Parent {
			sums[at] += got[i]
		}
	}
	for i, l := range limits {
		if sums[i] > l.Rate*(1+1e-9) {
			t.Fatalf("limit %d: %v allocated of %v\nlimits %+v\nclaims %+v\ngot %v", i, sums[i], l.Rate, limits, claims, got)
		}
	}
}

func randomTree(random *rand.Rand) (limits []Limit, claims []Claim) {
	some := func(most float64) float64 {
		if random.IntN(4) == 0 {
			return 0
		}
		return random.Float64() * most
	}
	for i := range 1 + random.IntN(4) {
		limits = append(limits, Limit{Rate: gbit * (0.1 + random.Float64()), Parent: random.IntN(i+1) - 1, Min: some(gbit / 4), Weight: float64(random.IntN(4))})
	}
	for range random.IntN(12) {
		c := Claim{Limit: random.IntN(len(limits)), Min: some(gbit / 8), Max: some(gbit), Weight: float64(random.IntN(5)), Demand: some(gbit)}
		if random.IntN(3) == 0 {
			c.Demand = math.Inf(1)
		}
		if random.IntN(3) == 0 {
			c.Max = math.Inf(1)
		}
		claims = append(claims, c)
	}
	return limits, claims
}

// bisect is the oracle: it searches the level of each limit by bisection, from the roots down.
func bisect(limits []Limit, claims []Claim) []float64 {
	out := make([]float64, len(claims))
	var bounds func(limit int) (low, high float64)
	claimBounds := func(c Claim) (low, high float64) {
		high = math.Min(c.Demand, c.Max)
		return math.Min(c.Min, high), high
	}
	bounds = func(limit int) (low, high float64) {
		for _, c := range claims {
			if c.Limit == limit {
				l, h := claimBounds(c)
				low, high = low+l, high+h
			}
		}
		for i, l := range limits {
			if l.Parent == limit {
				a, b := bounds(i)
				low, high = low+a, high+b
			}
		}
		high = math.Min(high, limits[limit].Rate)
		return math.Min(math.Max(low, limits[limit].Min), high), high
	}
	var divide func(limit int, given float64)
	divide = func(limit int, given float64) {
		type child struct {
			low, high, weight float64
			set               func(float64)
		}
		var all []child
		for i, c := range claims {
			if c.Limit == limit {
				l, h := claimBounds(c)
				all = append(all, child{l, h, math.Max(c.Weight, 1), func(r float64) { out[i] = r }})
			}
		}
		for i, l := range limits {
			if l.Parent == limit {
				a, b := bounds(i)
				all = append(all, child{a, b, math.Max(l.Weight, 1), func(r float64) { divide(i, r) }})
			}
		}
		at := func(level float64) (sum float64) {
			for _, c := range all {
				sum += math.Min(math.Max(c.weight*level, c.low), c.high)
			}
			return sum
		}
		scale := 1.0
		if floor := at(0); floor > given {
			scale = given / floor
		}
		low, high := 0.0, 100*gbit
		for range 200 {
			if mid := (low + high) / 2; at(mid) > given {
				high = mid
			} else {
				low = mid
			}
		}
		for _, c := range all {
			c.set(scale * math.Min(math.Max(c.weight*low, c.low), c.high))
		}
	}
	for i, l := range limits {
		if l.Parent < 0 {
			_, high := bounds(i)
			divide(i, high)
		}
	}
	return out
}

func BenchmarkAllocation(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	limits := []Limit{{Rate: 100 * gbit, Parent: -1}}
	for range 20 {
		limits = append(limits, Limit{Rate: 10 * gbit, Parent: 0})
	}
	var claims []Claim
	for i := range 10_000 {
		claims = append(claims, Claim{Limit: 1 + i%20, Min: 1e6, Max: gbit, Weight: 1 + float64(i%3), Demand: random.ExpFloat64() * 2e7})
	}
	for b.Loop() {
		WithSpare(limits, claims)
	}
}
