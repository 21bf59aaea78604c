/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fair parts of a line: an approximate fair queue in departure times. A departure time is final, so
 * nothing can be reordered later; instead a packet has the earlier of two times:
 *
 *   queue   when all that the line has been charged for has had its time: first in, first out
 *   ahead   when its own flow's packets have had their time at the flow's part of the rate, and no
 *           earlier than packets that depart ahead have had theirs at the whole rate
 *
 * What uses less than its part so departs ahead of the queue of those that use more. All are
 * charged to the queue, so that over time no more than the rate departs, and in a moment no more
 * than the rate and what the queue holds. The queue never waits for nothing.
 *
 * The part is that of max-min fairness: a flow of weight w may use w C / N, and
 *
 *   N = sum over flows of w min(1, what it uses / its part)      counted once an interval
 *
 * taken an eighth higher, so that a flow that has more than others is above its part.
 */
#ifndef WEIR_DELAY_FLOW_H
#define WEIR_DELAY_FLOW_H

#include "lines.h"

#define ONE_FLOW (1 << DELAY_FLOWS_SHIFT)
#define DEBT_SHIFT 2 /* 2^-n of an interval: how far a flow's queue may end behind the line's */
#define SEED 32 /* flows that are assumed when a queue begins */
#define HASH_RATIO 0x9e3779b1 /* 2^32 over the golden ratio, odd */

/* The queue of a flow, or child, in a line. */
static __always_inline struct delay_flow *delay_flow_of(__u32 hash, __u32 key)
{
	__u32 at = (hash ^ key * HASH_RATIO) * HASH_RATIO >> 18;

	at &= DELAY_FLOWS - 1;
	return bpf_map_lookup_elem(&delay_flows, &at);
}

/* Begins another interval if this one is over: the first to see it counts. */
static __always_inline void delay_recount(struct delay_state *state, const struct delay_config *line, __s64 now)
{
	__u64 start = state->interval_start_ns, used, flows;

	if ((__s64)(now - start) < (__s64)line->interval_ns || __sync_val_compare_and_swap(&state->interval_start_ns, start, (__u64)now) != start)
		return;
	used = __sync_lock_test_and_set(&state->used_ns, 0);
	flows = state->part_ns ? (used << DELAY_FLOWS_SHIFT) / state->part_ns : 0;
	flows += flows >> 3;
	if (flows < ONE_FLOW)
		flows = ONE_FLOW;
	/* From too many the count comes down at once, from too few it grows by eighths. */
	if (state->finish_ns <= now && flows < SEED * ONE_FLOW)
		flows = SEED * ONE_FLOW;
	state->flows = flows;
	state->part_ns = (line->interval_ns << DELAY_FLOWS_SHIFT) / flows;
}

/* Counts what a flow uses, up to its part. */
static __always_inline void delay_use(struct delay_state *state, struct delay_flow *flow, __u64 unit, __u32 weight)
{
	__u32 interval = state->interval_start_ns >> 10;
	__u64 part = state->part_ns, used;

	if (flow->interval != interval) {
		flow->interval = interval;
		flow->used_ns = 0;
	}
	used = flow->used_ns;
	if (used >= part)
		return;
	unit = unit < part - used ? unit : part - used;
	flow->used_ns = used + unit;
	__sync_fetch_and_add(&state->used_ns, unit * weight);
}

/* When a flow's packet of unit ns, per unit of weight, begins at the earliest at its fair part. */
static __always_inline __s64 delay_own(const struct delay_flow *flow, __s64 now)
{
	return flow->finish_ns > now ? flow->finish_ns : now;
}

/*
 * Advances a flow's queue. What uses more than its part is behind the line's queue: far enough to
 * stay there with what others are charged between two of its packets, and no farther, since what
 * the line had room for is no debt.
 */
static __always_inline void delay_advance(struct delay_flow *flow, __s64 finish, __s64 most)
{
	flow->finish_ns = finish < most ? finish : most;
}

/* Advances a virtual finish time that is no earlier than floor; returns when the packet begins. */
static __always_inline __s64 delay_book(__s64 *finish_ns, __s64 floor, __s64 cost, struct delay_counters *count)
{
	for (int i = 0; i < CAS_TRIES; i++) {
		__s64 old = *(volatile __s64 *)finish_ns, start = old < floor ? floor : old;

		if (__sync_val_compare_and_swap(finish_ns, old, start + cost) == old)
			return start;
		count->passed.retries++;
	}
	return __sync_fetch_and_add(finish_ns, cost);
}

#endif
