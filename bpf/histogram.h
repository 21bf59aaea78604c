/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Log-linear histogram buckets, the same as package weir/record/hist:
 *
 *   value    0 .. 31      bucket = value
 *            32 .. 63     bucket = value          (32 buckets of width 1)
 *            64 .. 127    32 buckets of width 2
 *            128 .. 255   32 buckets of width 4   ... to 2^64
 *
 * The relative error of a value is at most 1/32. hist_index() gets the number of entries; the last
 * entry counts all values above it. HIST_BUCKETS_FOR(exponent) covers values below 2^exponent: for
 * ns, 30 is 1.07 s (832 entries) and 36 is 68 s (1024 entries).
 *
 * hist.FromCounts() needs exact count, sum, minimum and maximum: keep them beside the array.
 *
 * Include it after vmlinux.h or linux/types.h, and bpf/bpf_helpers.h.
 */
#ifndef WEIR_HISTOGRAM_H
#define WEIR_HISTOGRAM_H

#define HIST_SUB_BITS 5
#define HIST_SUB (1U << HIST_SUB_BITS)
#define HIST_BUCKETS_FOR(exponent) (((exponent) - HIST_SUB_BITS) * HIST_SUB + HIST_SUB)
#define HIST_BUCKETS HIST_BUCKETS_FOR(64)

/*
 * hist_log2 - position of the highest set bit of v, by binary search: BPF has no instruction for
 * it. v must not be 0.
 */
static __always_inline __u32 hist_log2(__u64 v)
{
	__u32 bit = 0;

	if (v >> 32) {
		v >>= 32;
		bit += 32;
	}
	if (v >> 16) {
		v >>= 16;
		bit += 16;
	}
	if (v >> 8) {
		v >>= 8;
		bit += 8;
	}
	if (v >> 4) {
		v >>= 4;
		bit += 4;
	}
	if (v >> 2) {
		v >>= 2;
		bit += 2;
	}
	if (v >> 1)
		bit += 1;
	return bit;
}

/*
 * hist_index - bucket of v in an array of that many buckets. The verifier sees that the result is
 * below buckets.
 */
static __always_inline __u32 hist_index(__u64 v, __u32 buckets)
{
	__u32 exponent, index;

	if (v < HIST_SUB) {
		index = (__u32)v;
	} else {
		exponent = hist_log2(v) - HIST_SUB_BITS;
		index = (exponent + 1) * HIST_SUB + (__u32)(v >> exponent) - HIST_SUB;
	}
	return index < buckets ? index : buckets - 1;
}

#endif /* WEIR_HISTOGRAM_H */
