/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Virtual queue of a scope. */
#ifndef WEIR_LIMIT_QUEUE_H
#define WEIR_LIMIT_QUEUE_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "bounds.h"
#include "limit.h"

#define CAS_TRIES 8
#define US_SHIFT 35
#define US_RECIPROCAL 274877907 /* 2^US_SHIFT / 125, rounded up: us = ns / 8 / 125 */

/* Returns the end of a queue after cost ns more. An idle queue starts at floor, a burst ago. */
static __always_inline __s64 ends_after(__s64 old, __s64 floor, __s64 cost)
{
	return at_least(old, floor) + cost;
}

/*
 * Admits cost ns if the queue then ends before the limit. Returns the length of the queue in ns,
 * admitted or not.
 */
static __always_inline __s64 admit(struct limit_state *state, __s64 burst_ns, __s64 now, __s64 cost,
				    __s64 limit, struct limit_counters *count)
{
	__s64 floor = now - burst_ns, queue = 0;

	for (int i = 0; i < CAS_TRIES; i++) {
		__s64 old = *(volatile __s64 *)&state->finish_ns;
		__s64 finish = ends_after(old, floor, cost);

		queue = finish - now;
		if (queue > limit)
			return queue;
		if (__sync_val_compare_and_swap(&state->finish_ns, old, finish) == old)
			return queue;
		count->retries++;
	}
	__sync_fetch_and_add(&state->finish_ns, cost);
	return queue;
}

/* Returns the histogram bucket for a number of us: its binary logarithm, 0 for 0. */
static __always_inline __u32 bucket_of(__u64 us)
{
	__u32 index = 0;

	for (int shift = 4; shift >= 0; shift--)
		if (us >> (1u << shift) >> index)
			index += 1u << shift;
	return index < LIMIT_QUEUE_BUCKETS ? index : LIMIT_QUEUE_BUCKETS - 1;
}

static __always_inline __u32 bucket(__s64 queue_ns)
{
	if (queue_ns < 2000)
		return 0;
	/*
	 * Multiplication replaces a division, which takes as long as a compare-and-swap. The product is
	 * exact up to 39 s, and within 1 us up to 4 minutes.
	 */
	return bucket_of(((__u64)queue_ns >> 3) * US_RECIPROCAL >> US_SHIFT);
}

#endif
