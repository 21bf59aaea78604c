/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that the analyzer's program and Go share. Times are ns of CLOCK_MONOTONIC. */
#ifndef WEIR_INSTRUMENT_JUDGE_H
#define WEIR_INSTRUMENT_JUDGE_H

#define JUDGE_FILTER 64   /* octets that a filter compares at most */
#define JUDGE_FRAMES 1024 /* frames that a capture holds */
#define JUDGE_SNAP 2048   /* octets kept of a captured frame */

/* control says which bank is active, and whether any is. */
struct control {
	__u32 enabled;
	__u32 bank; /* 0 or 1 */
};

/*
 * rules are an analyzer's settings. They never change: a changed analyzer is the other bank.
 */
struct rules {
	__s64 tai; /* ns to add to CLOCK_MONOTONIC for TAI */
	__u64 frame_index;     /* capture from this frame on */
	__u64 testframe_index; /* and from this test frame on */
	__u32 filter;        /* compare frames with mask and data */
	__u32 filter_offset;
	__u32 filter_length; /* octets; 1 to JUDGE_FILTER */
	__u32 capture;
	__u32 when_full;     /* stop then, instead of replacing the oldest frame */
	__u32 snap;          /* octets to keep; 1 to JUDGE_SNAP */
	__u64 mask[JUDGE_FILTER / 8], data[JUDGE_FILTER / 8]; /* octets beyond the length are 0 */
};

/* totals are an analyzer's counters. */
struct totals {
	struct bpf_spin_lock lock;
	__u32 unused;
	__u64 pkts, octets;           /* all frames, FCS included */
	__u64 test_pkts, test_octets;
	__u64 numbered;               /* test frames with a stamp */
	__u64 expected;               /* next sequence number */
	__u64 sequence_errors;
	__u64 error_at, error_expected, error_received;
	__u64 samples, latency_sum, latency_min, latency_max, latency_latest; /* ns */
	__u64 negative;               /* stamps that lie in the future: two clocks */
	__u64 first, last;            /* arrivals of test frames */
	__u64 captured, captured_octets;
};

struct captured {
	__u64 at;
	__u64 number; /* frames captured before it */
	__u32 size;   /* octets without FCS */
	__u32 kept;   /* octets in data */
	__u8 data[JUDGE_SNAP];
};

#endif /* WEIR_INSTRUMENT_JUDGE_H */
