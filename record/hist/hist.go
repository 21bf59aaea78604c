// Package hist is a log-linear histogram of non-negative integers with exact merging.
//
// Every power of two is divided into 2^SubBits equal buckets, so a value is known to within 1/2^SubBits of itself; counts,
// sum, minimum and maximum are exact, and merging two histograms equals recording into one. The BPF data planes fill
// arrays with the same bucket boundaries (bpf/histogram.h).
package hist

import "math/bits"

const (
	// SubBits sets the resolution: 32 buckets per power of two, a relative width of 3.1 %.
	SubBits = 5
	sub     = 1 << SubBits
	// Buckets is the number of buckets that cover every 64-bit value.
	Buckets = (64-SubBits)*sub + sub
)

// Histogram counts values. The zero value is empty and ready to use. It is not safe for concurrent use.
type Histogram struct {
	counts []uint64 // by bucket; nil while empty
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
