// SPDX-License-Identifier: Apache-2.0

package hist_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"weir/kernel/testutil"
	"weir/record/hist"
)

func TestIndexIsContiguousOverAllBuckets(t *testing.T) {
	next := uint64(0)
	for i := range hist.Buckets {
		low, high := hist.Bounds(i)
		if low != next || high < low {
			t.Fatalf("bucket %d is %d..%d, want it to start at %d", i, low, high, next)
		}
		if hist.Index(low) != i || hist.Index(high) != i {
			t.Fatalf("bucket %d: Index(%d) = %d, Index(%d) = %d", i, low, hist.Index(low), high, hist.Index(high))
		}
		if width := high - low; width > low/32 {
			t.Fatalf("bucket %d spans %d values above %d: more than 1/32", i, width, low)
		}
		next = high + 1
	}
	if next != 0 {
		t.Fatalf("the last bucket ends at %d, want the largest 64-bit value", next-1)
	}
}

func TestIndexIsMonotoneAroundPowersOfTwo(t *testing.T) {
	last := -1
	for exponent := range 64 {
		edge := uint64(1) << exponent
		for _, v := range []uint64{edge - 1, edge, edge + 1} {
			if v > edge+1 {
				continue
			}
			index := hist.Index(v)
			if index < last && v >= edge {
				t.Fatalf("Index(%d) = %d after %d", v, index, last)
			}
			last = max(last, index)
		}
	}
	if got := hist.Index(math.MaxUint64); got != hist.Buckets-1 {
		t.Fatalf("Index of the largest value is %d, want %d", got, hist.Buckets-1)
	}
}

// random draws values of all magnitudes.
func random(t *testing.T, n int) []uint64 {
	r := testutil.Rand(t)
	values := make([]uint64, n)
	for i := range values {
		values[i] = r.Uint64() >> (20 + r.IntN(44))
	}
	return values
}

func TestQuantilesAgainstSortedValues(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 1000, 20000} {
		values := random(t, n)
		var h hist.Histogram
		var sum uint64
		for _, v := range values {
			h.Record(v)
			sum += v
		}
		slices.Sort(values)
		if h.Count() != uint64(n) || h.Sum() != sum || h.Min() != values[0] || h.Max() != values[n-1] {
			t.Fatalf("%d values: count %d sum %d min %d max %d", n, h.Count(), h.Sum(), h.Min(), h.Max())
		}
		if mean := float64(sum) / float64(n); math.Abs(h.Mean()-mean) > mean*1e-12 {
			t.Fatalf("mean %g, want %g", h.Mean(), mean)
		}
		for _, q := range []float64{0, 1e-9, 0.001, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1} {
			rank := max(int(math.Ceil(q*float64(n))), 1)
			want, got := values[rank-1], h.Quantile(q)
			if hist.Index(got) != hist.Index(want) || math.Abs(float64(got)-float64(want)) > float64(want)/32 {
				t.Errorf("%d values: quantile %g is %d, want %d within 1/32", n, q, got, want)
			}
		}
	}
}

func TestQuantilesOfPercentsAreExact(t *testing.T) {
	var h hist.Histogram
	for v := range uint64(50) {
		h.Record(v + 1)
		h.Record(v + 1)
	}
	for percent := uint64(1); percent <= 100; percent++ {
		if got, want := h.Quantile(float64(percent)/100), (percent+1)/2; got != want {
			t.Errorf("%d %% of 1, 1, 2, 2 ... 50, 50 is %d, want %d", percent, got, want)
		}
	}
}

func TestQuantileExtremesAreExact(t *testing.T) {
	var h hist.Histogram
	for _, v := range []uint64{1000003, 1000007, 2000011} {
		h.Record(v)
	}
	if h.Quantile(0) != 1000003 || h.Quantile(1) != 2000011 || h.Quantile(math.NaN()) != 1000003 {
		t.Fatalf("extremes %d, %d", h.Quantile(0), h.Quantile(1))
	}
	var empty hist.Histogram
	var none *hist.Histogram
	if empty.Quantile(0.5) != 0 || none.Quantile(0.5) != 0 || none.Mean() != 0 || len(none.CDF()) != 0 {
		t.Fatal("an empty histogram must read as zero")
	}
}

func TestMergeEqualsRecordingIntoOne(t *testing.T) {
	values := random(t, 5000)
	var whole hist.Histogram
	parts := make([]hist.Histogram, 3)
	for i, v := range values {
		whole.Record(v)
		parts[i%2].Record(v) // the third stays empty
	}
	var merged hist.Histogram
	for i := range parts {
		merged.Merge(&parts[i])
	}
	merged.Merge(nil)
	if !merged.Equal(&whole) || !whole.Equal(&merged) {
		t.Fatal("the merged histogram differs from the one that recorded all")
	}
	merged.Record(1)
	if merged.Equal(&whole) {
		t.Fatal("Equal does not see one value more")
	}
}

func TestSumStopsAtTheLargestNumber(t *testing.T) {
	var h hist.Histogram
	h.RecordN(math.MaxUint64, 3)
	h.Record(7)
	if h.Sum() != math.MaxUint64 || h.Count() != 4 || h.Min() != 7 {
		t.Fatalf("sum %d, count %d, min %d", h.Sum(), h.Count(), h.Min())
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var h hist.Histogram
	h.Record(1)
	v := uint64(1)
	if allocations := testing.AllocsPerRun(1000, func() { h.Record(v); v *= 3 }); allocations != 0 {
		t.Fatalf("%g allocations per Record", allocations)
	}
}

func TestCDFRisesToOne(t *testing.T) {
	var h hist.Histogram
	for _, v := range random(t, 1000) {
		h.Record(v)
	}
	steps := h.CDF()
	for i := 1; i < len(steps); i++ {
		if steps[i].Value <= steps[i-1].Value || steps[i].Share <= steps[i-1].Share {
			t.Fatalf("step %d does not rise: %v after %v", i, steps[i], steps[i-1])
		}
	}
	if last := steps[len(steps)-1]; last.Value != h.Max() || last.Share != 1 {
		t.Fatalf("the last step is %v, want the maximum %d at 1", last, h.Max())
	}
}

func TestFromCounts(t *testing.T) {
	values := random(t, 2000)
	var h hist.Histogram
	counts := make([]uint64, hist.Buckets)
	for _, v := range values {
		h.Record(v)
		counts[hist.Index(v)]++
	}
	read, err := hist.FromCounts(counts, h.Min(), h.Max(), h.Sum())
	if err != nil || !read.Equal(&h) {
		t.Fatalf("imported histogram differs: %v", err)
	}
	counts[0]++ // the copy must be independent
	if !read.Equal(&h) {
		t.Fatal("the histogram shares the caller's array")
	}
	read.Record(math.MaxUint64) // and must grow
	if read.Max() != math.MaxUint64 {
		t.Fatal("an imported histogram does not record")
	}
	if _, err := hist.FromCounts(make([]uint64, hist.Buckets+1), 0, 0, 0); err == nil {
		t.Fatal("an array that is too long is accepted")
	}
	if empty, err := hist.FromCounts(make([]uint64, 10), math.MaxUint64, 0, 0); err != nil || !empty.Equal(nil) {
		t.Fatalf("an array without values gives %v, %v", empty, err)
	}
}

func TestFromCountsWithOpenLastBucket(t *testing.T) {
	counts := make([]uint64, 64) // values up to 63; above it, all in the last
	counts[10], counts[63] = 1, 9
	h, err := hist.FromCounts(counts, 10, 1_000_000, 9_000_010)
	if err != nil {
		t.Fatal(err)
	}
	if h.Max() != 1_000_000 || h.Quantile(1) != 1_000_000 {
		t.Fatalf("maximum %d, want what was given", h.Max())
	}
	if q := h.Quantile(0.5); q < 63 || q > 1_000_000 {
		t.Fatalf("median %d lies outside the open bucket", q)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var read hist.Histogram
	if err := json.Unmarshal(text, &read); err != nil || !read.Equal(h) {
		t.Fatalf("round trip of %s: %v", text, err)
	}
	torn, _ := hist.FromCounts(counts[:40], 0, 5, 10) // extremes behind the counts
	if torn.Min() != 10 || torn.Max() != 10 {
		t.Fatalf("extremes %d..%d were not moved into the only bucket", torn.Min(), torn.Max())
	}
}

func TestResetAndClone(t *testing.T) {
	var h hist.Histogram
	h.Record(5)
	copied := h.Clone()
	h.Reset()
	if h.Count() != 0 || h.Max() != 0 || copied.Max() != 5 {
		t.Fatalf("after reset: %d values; the clone's maximum is %d", h.Count(), copied.Max())
	}
	h.Record(9)
	if h.Min() != 9 || h.Sum() != 9 {
		t.Fatalf("after reset and 9: min %d sum %d", h.Min(), h.Sum())
	}
}
