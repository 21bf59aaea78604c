/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The virtual queue of a scope and the rate that it lets one flow have. */
#ifndef WEIR_LIMIT_QUEUE_H
#define WEIR_LIMIT_QUEUE_H

#include "limit.h"

#define CAS_TRIES 8
#define RATE_INTERVAL_MAX 1000000000
#define TARGET_SHARE 1009 /* of 1024: what the fair rate aims at */

/* Admits cost ns to the queue if it then ends before the limit; returns the queue's length in ns, admitted or not. */
static __always_inline __s64 charge(struct limit_state *state, const struct limit_config *config, __s64 now, __s64 cost,
				    __s64 limit, struct limit_counters *count)
{
	__s64 floor = now - (__s64)config->burst_ns, queue = 0;

	for (int i = 0; i < CAS_TRIES; i++) {
		__s64 old = *(volatile __s64 *)&state->finish_ns;
		__s64 finish = (old < floor ? floor : old) + cost;

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

/*
 * Moves the fair rate once per interval T of two mark thresholds: R += R * ((C - y) / 2C - q / 2T), bounded to C/1024 .. C.
 * q is what the queue holds beyond half the mark threshold: a paced super-packet alone is no congestion.
 */
static __always_inline void update_rate(struct limit_state *state, const struct limit_config *config, __u64 now, __u64 wire)
{
	__sync_fetch_and_add(&state->window_bytes, wire);
	__u64 start = state->window_start_ns, elapsed = now - start;

	if (elapsed < 2 * config->mark_ns || __sync_val_compare_and_swap(&state->window_start_ns, start, now) != start)
		return;
	__u64 bytes = state->window_bytes;

	__sync_fetch_and_add(&state->window_bytes, -bytes);
	if (elapsed > RATE_INTERVAL_MAX)
		elapsed = RATE_INTERVAL_MAX;
	__u64 target = (config->rate * TARGET_SHARE >> 10) + 1;
	__u64 offered = bytes * 1000000000ULL / elapsed;
	__u64 up = offered < target ? (target - offered) * 512 / target : 0;
	__u64 down = offered > target ? (offered - target) * 512 / target : 0;
	__s64 queue = state->finish_ns - (__s64)now - (__s64)(config->mark_ns >> 1);
	__u64 behind = queue > 0 ? (__u64)(queue > RATE_INTERVAL_MAX ? RATE_INTERVAL_MAX : queue) * 512 / elapsed : 0;

	if (down > 400)
		down = 400;
	if (behind > 400)
		behind = 400;
	__u64 factor = 1024 + up - down - behind;

	if (factor < 400)
		factor = 400;
	__u64 rate = state->fair_rate * factor >> 10;

	if (rate < (target >> 10) + 1)
		rate = (target >> 10) + 1;
	if (rate > target)
		rate = target;
	state->fair_rate = rate;
	state->updates++;
}

static __always_inline __u32 bucket(__s64 queue_ns)
{
	__u64 us = queue_ns > 0 ? (__u64)queue_ns / 1000 : 0;
	__u32 index = 0;

	for (int shift = 4; shift >= 0; shift--)
		if (us >> (1u << shift) >> index) {
			index += 1u << shift;
		}
	return index < LIMIT_QUEUE_BUCKETS ? index : LIMIT_QUEUE_BUCKETS - 1;
}

#endif
