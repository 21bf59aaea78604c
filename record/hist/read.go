// SPDX-License-Identifier: Apache-2.0

package hist

import (
	"fmt"
	"iter"
	"math"
)

// Count returns the number of recorded values.
func (h *Histogram) Count() uint64 {
	if h == nil {
		return 0
	}
	return h.count
}

// Sum returns the exact sum of all values, or the largest 64-bit number if it is above that.
func (h *Histogram) Sum() uint64 {
	if h == nil {
		return 0
	}
	return h.sum
}

// Mean returns the exact mean, 0 if the histogram is empty.
func (h *Histogram) Mean() float64 {
	if h.Count() == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.count)
}

// Min returns the exact smallest value, 0 if the histogram is empty.
func (h *Histogram) Min() uint64 {
	if h.Count() == 0 {
		return 0
	}
	return h.min
}

// Max returns the exact largest value, 0 if the histogram is empty.
func (h *Histogram) Max() uint64 {
	if h.Count() == 0 {
		return 0
	}
	return h.max
}

// All iterates over the non-empty buckets, in order: their index and count.
func (h *Histogram) All() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		if h.Count() == 0 {
			return
		}
		for i, n := range h.counts {
			if n != 0 && !yield(i, n) {
				return
			}
		}
	}
}

// Quantile returns the value at or below which the share q of all values lies: the value of rank
// ceil(q·Count) in a sorted list, interpolated inside its bucket. It lies in the same bucket as the
// true value, so its error is less than 1/32 of it, and it is exact below 64, at q = 0 (the
// minimum) and at q = 1 (the maximum). An empty histogram gives 0; q is clamped to 0..1.
func (h *Histogram) Quantile(q float64) uint64 {
	count := h.Count()
	switch {
	case count == 0:
		return 0
	case !(q > 0): // NaN included
		return h.min
	case q >= 1:
		return h.max
	}
	rank := rankOf(q, count)
	var before uint64
	for i, n := range h.All() {
		if before+n >= rank {
			low, high := h.span(i, before+n == count)
			return within(low, high, n, rank-before)
		}
		before += n
	}
	return h.max
}

// rankOf returns ceil(q·count), corrected for rounding: 0.07·100 is slightly above 7 in floating
// point.
func rankOf(q float64, count uint64) uint64 {
	exact := q * float64(count)
	if nearest := math.Round(exact); math.Abs(exact-nearest) <= 1e-12*exact {
		exact = nearest
	}
	return min(max(uint64(math.Ceil(exact)), 1), count)
}

// within places the k-th of n values (from 1) between low and high as if they were spread evenly.
func within(low, high, n, k uint64) uint64 {
	share := (float64(k) - 0.5) / float64(n)
	return low + min(uint64(share*float64(high-low)+0.5), high-low)
}

// span returns a bucket's bounds, narrowed to the extremes. The topmost bucket ends at the maximum
// even if that lies beyond it: the last bucket of an imported array holds all larger values.
func (h *Histogram) span(i int, top bool) (low, high uint64) {
	low, high = Bounds(i)
	if top {
		high = h.max
	}
	return min(max(low, h.min), high), high
}

// Step is a point of a cumulative distribution: Share of all values are at or below Value.
type Step struct {
	Value uint64
	Share float64
}

// CDF returns the cumulative distribution at the upper bound of every non-empty bucket; the last
// step is the maximum, with share 1. An empty histogram gives none.
func (h *Histogram) CDF() []Step {
	var steps []Step
	var below uint64
	for i, n := range h.All() {
		below += n
		_, high := h.span(i, below == h.count)
		steps = append(steps, Step{Value: high, Share: float64(below) / float64(h.count)})
	}
	return steps
}

// Curve returns the steps of CDF as the x and y values of a figure, with x in seconds for values in
// nanoseconds.
func (h *Histogram) Curve() (x, y []float64) {
	for _, step := range h.CDF() {
		x, y = append(x, float64(step.Value)/1e9), append(y, step.Share)
	}
	return x, y
}

// FromCounts makes a histogram from an array indexed by [Index] and the exact minimum, maximum and
// sum of its values, as in the BPF data planes. The array may be shorter than [Buckets]. Its last
// bucket then also holds all larger values, and the only bounds of quantiles there are its lower
// bound and the maximum.
//
// An array read during recording may be ahead of its extremes; these are then moved to the nearest
// values that the outermost buckets allow. The only error is an array longer than Buckets.
func FromCounts(counts []uint64, low, high, sum uint64) (*Histogram, error) {
	if len(counts) > Buckets {
		return nil, fmt.Errorf("histogram of %d buckets: at most %d exist", len(counts), Buckets)
	}
	h := &Histogram{sum: sum, min: low, max: high}
	first, last := -1, -1
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
		h.count += n
	}
	if last < 0 {
		return &Histogram{}, nil
	}
	h.counts = append([]uint64(nil), counts[:last+1]...)
	open := last == len(counts)-1 // values above the array are counted here
	h.max = into(h.max, last, open)
	h.min = min(into(h.min, first, open && first == last), h.max)
	return h, nil
}

// into moves v into bucket i, which has no upper bound if it is open.
func into(v uint64, i int, open bool) uint64 {
	low, high := Bounds(i)
	if v < low {
		return low
	}
	if v > high && !open {
		return high
	}
	return v
}
