// SPDX-License-Identifier: Apache-2.0

// Package hist is a log-linear histogram of non-negative integers with exact merging.
//
// Every power of two is divided into 2^SubBits equal buckets, so a value is known to within
// 1/2^SubBits of itself; counts, sum, minimum and maximum are exact, and merging two histograms
// equals recording into one. The BPF data planes fill arrays with the same bucket boundaries
// (bpf/histogram.h); [FromCounts] imports them.
//
// The sum stops at the largest 64-bit number instead of wrapping, so the mean of huge values is
// then too small.
package hist

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// SubBits sets the resolution: 32 buckets per power of two, a relative width of 3.1 %.
	SubBits = 5
	sub     = 1 << SubBits
	// Buckets is the number of buckets that cover every 64-bit value.
	Buckets = (64-SubBits)*sub + sub
)

// Histogram counts values. The zero value is empty and ready to use; a nil one reads as empty.
// It must not be copied after its first use, and it is not safe for concurrent use.
type Histogram struct {
	counts []uint64 // by bucket; nil while empty, full length after the first Record
	count  uint64
	sum    uint64
	min    uint64
	max    uint64
}

// Index returns the bucket of v: v itself below 32, then 32 buckets per power of two.
func Index(v uint64) int {
	if v < sub {
		return int(v)
	}
	exponent := bits.Len64(v) - 1 - SubBits
	return (exponent+1)*sub + int(v>>exponent) - sub
}

// Bounds returns the smallest and the largest value of a bucket.
func Bounds(index int) (low, high uint64) {
	if index < sub {
		return uint64(index), uint64(index)
	}
	exponent := index/sub - 1
	low = uint64(sub+index%sub) << exponent
	return low, low + 1<<exponent - 1
}

// Record counts v once. Only the first call allocates.
func (h *Histogram) Record(v uint64) { h.RecordN(v, 1) }

// RecordN counts v n times.
func (h *Histogram) RecordN(v, n uint64) {
	if n == 0 {
		return
	}
	h.grow(Buckets)
	h.counts[Index(v)] += n
	high, product := bits.Mul64(v, n)
	if high != 0 {
		product = math.MaxUint64
	}
	h.account(n, product, v, v)
}

// Merge adds all values of other, as if they had been recorded here. A nil other adds nothing.
func (h *Histogram) Merge(other *Histogram) {
	if other.Count() == 0 {
		return
	}
	h.grow(len(other.counts))
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.account(other.count, other.sum, other.min, other.max)
}

// grow extends the histogram to n buckets.
func (h *Histogram) grow(n int) {
	if n > len(h.counts) {
		counts := make([]uint64, n)
		copy(counts, h.counts)
		h.counts = counts
	}
}

// account adds n values with the given sum and extremes to the totals.
func (h *Histogram) account(n, sum, low, high uint64) {
	if h.count == 0 {
		h.min, h.max = low, high
	}
	h.min, h.max = min(h.min, low), max(h.max, high)
	h.count += n
	total, carry := bits.Add64(h.sum, sum, 0)
	if carry != 0 {
		total = math.MaxUint64
	}
	h.sum = total
}

// Reset empties the histogram and keeps its memory.
func (h *Histogram) Reset() {
	clear(h.counts)
	*h = Histogram{counts: h.counts}
}

// Clone returns an independent copy; of nil, an empty histogram.
func (h *Histogram) Clone() *Histogram {
	if h == nil {
		return &Histogram{}
	}
	copied := *h
	copied.counts = slices.Clone(h.counts)
	return &copied
}

// Equal reports whether both hold the same values within the resolution of a histogram. Nil equals
// empty.
func (h *Histogram) Equal(other *Histogram) bool {
	if h.Count() != other.Count() {
		return false
	}
	if h.Count() == 0 {
		return true
	}
	return h.sum == other.sum && h.min == other.min && h.max == other.max && slices.Equal(trim(h.counts), trim(other.counts))
}

// trim cuts the empty buckets off the end.
func trim(counts []uint64) []uint64 {
	n := len(counts)
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return counts[:n]
}
