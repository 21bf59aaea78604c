/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An approximate fair queue in departure times. A departure time is final (nothing is reordered
 * later), so each packet gets the earlier of two times:
 *
 *   queue   the end of the shaper's FIFO: the link time of everything charged so far
 *   ahead   the end of the flow's own queue at its fair share, or the first time slot after it with
 *           free link time. Paced and unpaced flows have separate slots, since paced bursts
 *           coincide; an isolated small packet may use either.
 *
 * A slot holds as much link time as it lasts. A burst of one flow is spread over many slots, with
 * free time for other flows in each:
 *
 *   now                                                   queue
 *   | a a . . | a a . . | a a b . | a a . . | a a . . |   burst a takes half of the rate;
 *                         ^ own time of b                 b departs in its slot, not after a
 *
 * Flows below their share thus depart ahead of flows above it. Every packet is charged to the
 * queue: over time no more than the rate departs, over a short time no more than the rate plus the
 * queue. The shaper is work-conserving.
 *
 * The share is max-min fair: a flow of weight w may use w C / N of the rate C, where
 *
 *   N = sum over flows of w min(1, usage / share)      computed once per interval
 *
 * plus one eighth, so that a flow that uses more than the others exceeds its share. Paced flows
 * (shaper.h) are controlled to their share and counted by their whole usage.
 */
#ifndef WEIR_SHAPE_FAIR_QUEUE_H
#define WEIR_SHAPE_FAIR_QUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../police/pace.h"
#include "../police/queue.h"
#include "lookup.h"
#include "shaper.h"

#define ONE_FLOW (1 << SHAPER_FLOWS_SHIFT)
#define DEBT_SHIFT 2 /* 2^-n of an interval: bound of a flow's finish time beyond the end of the shaper's queue */
#define SPARE_SHIFT 8 /* 2^-n of the rate that paced flows leave unused, against a standing queue */
#define IDLE_SHIFT 2  /* 2^-n of the rate: a single flow is paced that much faster, since it does not use its whole pace */
#define RWND_SHIFT 3  /* 2^n times the rate: bound of a single flow's receive window, since its RTT may be underestimated */
#define HEADERS_SHIFT 4 /* 2^-n of the rate, left for headers, which TCP pacing does not count */
/* Flow with a local TCP receiver: used_ns >= LOCAL_AGING is LOCAL_SEEN, LOCAL_AGING, then 0. */
#define LOCAL_AGING 0xfffffffeu
#define LOCAL_SEEN 0xffffffffu
#define NO_WAIT_YET 0x7fffffff /* initial wait_us of an interval */
#define PACED_BURST (2ULL * 1514) /* bytes that TCP sends at once at a low pace: two segments */
#define MAX_COUNT_FACTOR 4 /* bounds the flow count to this times the active flows: minimal windows use more than a share */
#define INITIAL_FLOWS 32 /* flow count assumed when a queue begins */
#define HASH_RATIO 0x9e3779b1 /* 2^32 over the golden ratio, odd */

/* Selects one of a shaper's two sets of time slots. */
struct slot_set {
	__s64 now;   /* ns, CLOCK_MONOTONIC */
	__u32 shift; /* log2 of a slot's length in ns */
	__u32 paced; /* boolean: the slots of paced flows */
};

/* Returns the queue of a child in its parent, or of a flow (by hash) in a shaper. */
static __always_inline struct shaper_flow *lookup_flow(__u32 child, __u32 hash, __u32 key)
{
	struct shaper_state *below = child ? bpf_map_lookup_elem(&delay_states, &child) : 0;

	if (below)
		return &below->in_parent;
	__u32 at = (hash ^ key * HASH_RATIO) * HASH_RATIO >> 18;

	at &= SHAPER_FLOWS - 1;
	return bpf_map_lookup_elem(&delay_flows, &at);
}

/*
 * Returns the pace in bytes/s, times ONE_FLOW, of a flow alone in its shaper: 1/16 below the rate,
 * since TCP pacing excludes headers, 1/22 of a full-sized frame.
 */
static __always_inline __u64 single_flow_pace(const struct shaper_config *shaper)
{
	return (__u64)(shaper->rate - (shaper->rate >> HEADERS_SHIFT)) << SHAPER_FLOWS_SHIFT;
}

/*
 * Returns the flow count N for paced flows, each at C / N: the N at which they use nearly all of
 * the rate that unpaced flows (counted above) leave.
 *
 * As in RCP, N moves by T / 2d of the difference. T is the interval; the loop delay d is the
 * interval, an RTT, the queue (the shortest wait of a paced packet) and one burst of every flow,
 * since a flow applies its new pace with its next burst. Coinciding paced bursts make short queues:
 * only the queue beyond half the mark threshold is drained, with up to a third of the rate. In that
 * case many flows have begun at once, and N is at least the number of senders seen since.
 */
static __always_inline __u64 count_paced_flows(struct shaper_state *state, const struct shaper_config *shaper, __u64 elapsed,
					       __u64 paced, __u64 others)
{
	__u64 wait = (__u64)state->wait_us << 10, loop = elapsed + 1000ULL * state->rtt_us + wait;
	__u64 bursts = shaper->mark_ns / 2, beyond = wait > bursts ? wait - bursts : 0;
	__u64 now = state->fair_rate ? single_flow_pace(shaper) / state->fair_rate : ONE_FLOW;
	__u64 senders = state->senders * (__u64)ONE_FLOW + others, want = now * paced / elapsed;
	__u64 round = (PACED_BURST * shaper->cost >> LIMIT_COST_SHIFT) * now >> SHAPER_FLOWS_SHIFT;

	loop += round; /* without it 200 flows at 30 Mbit/s use 79 to 95 % (docs/results/limit.md) */
	want += want >> SPARE_SHIFT;
	want += (want * (beyond >> 11) / (loop >> 10)) + others;
	want = now + (want * (elapsed >> 11) / (loop >> 10)) - (now * (elapsed >> 11) / (loop >> 10));
	if (beyond)
		return want > senders ? want : senders;
	state->senders = 0;
	state->since_interval = state->interval_start_ns >> 10;
	return want;
}

/* Starts the next interval after interval_ns; exactly one CPU computes the flow count. */
static __always_inline void update_interval(struct shaper_state *state, const struct shaper_config *shaper, __s64 now)
{
	__u64 start = state->interval_start_ns, elapsed = now - start, used, paced, throttled, present, flows, min, rate;

	if ((__s64)elapsed < (__s64)shaper->interval_ns || __sync_val_compare_and_swap(&state->interval_start_ns, start, (__u64)now) != start)
		return;
	used = __sync_lock_test_and_set(&state->used_ns, 0);
	paced = __sync_lock_test_and_set(&state->paced_ns, 0);
	throttled = paced && shaper->flags & SHAPER_RECEIVED;
	flows = state->share_ns ? (used << SHAPER_FLOWS_SHIFT) / state->share_ns : 0;
	flows += flows >> 3;
	present = flows + __sync_lock_test_and_set(&state->active, 0) * (__u64)ONE_FLOW;
	if (present < ONE_FLOW)
		present = ONE_FLOW; /* a flow that became paced within the interval is not counted yet */
	if (paced)
		flows = count_paced_flows(state, shaper, elapsed, paced, flows);
	else if (!used && state->flows)
		flows = state->flows;
	else if (state->finish_ns <= now && flows < INITIAL_FLOWS * ONE_FLOW)
		flows = INITIAL_FLOWS * ONE_FLOW; /* too high a count falls at once, too low a count rises by eighths */
	min = throttled ? ONE_FLOW >> RWND_SHIFT : paced ? ONE_FLOW - (ONE_FLOW >> IDLE_SHIFT) : ONE_FLOW;
	if (flows < min)
		flows = min;
	if (throttled && flows > MAX_COUNT_FACTOR * present)
		flows = MAX_COUNT_FACTOR * present;
	rate = single_flow_pace(shaper) / (paced ? flows : ONE_FLOW) + 1; /* 0 means: before the first interval */
	state->fair_rate = rate < UNLIMITED ? rate : UNLIMITED - 1;
	if (throttled) { /* N sets the windows; the share follows the number of flows present */
		flows = flows < present ? flows : present;
		flows = flows > ONE_FLOW ? flows : ONE_FLOW;
	}
	state->wait_us = NO_WAIT_YET;
	state->flows = flows;
	state->share_ns = (shaper->interval_ns << SHAPER_FLOWS_SHIFT) / flows;
}

/* Counts an unpaced packet's charge, up to its flow's share. */
static __always_inline void count_usage(struct shaper_state *state, struct shaper_flow *flow, __u64 unit, __u32 weight)
{
	__u32 interval = state->interval_start_ns >> 10;
	__u64 share = state->share_ns, used;

	if (flow->interval != interval) {
		flow->interval = interval;
		flow->used_ns = 0;
	}
	used = flow->used_ns;
	if (used >= share)
		return;
	unit = unit < share - used ? unit : share - used;
	flow->used_ns = used + unit;
	__sync_fetch_and_add(&state->used_ns, unit * weight);
}

/* Counts a paced packet's charge and wait, and its flow once per interval. */
static __always_inline void count_paced_usage(struct shaper_state *state, struct shaper_flow *flow, __u64 cost, __s64 wait)
{
	__u32 us = wait > 0 ? (__u64)wait >> 10 : 0, interval = state->interval_start_ns >> 10;

	if ((__s32)(flow->interval - state->since_interval) < 0)
		__sync_fetch_and_add(&state->senders, 1);
	if (flow->interval != interval) {
		__sync_fetch_and_add(&state->active, 1);
		flow->used_ns -= flow->used_ns > LOCAL_AGING ? 1 : flow->used_ns;
		flow->interval = interval;
	}
	__sync_fetch_and_add(&state->paced_ns, cost);
	if (us < state->wait_us)
		state->wait_us = us;
}

/* Appends cost ns to a queue that ends at floor or later; returns its former end. */
static __always_inline __s64 append_to_queue(__s64 *finish_ns, __s64 floor, __s64 cost, struct shaper_counters *count)
{
	for (int i = 0; i < CAS_TRIES; i++) {
		__s64 old = *(volatile __s64 *)finish_ns, start = old < floor ? floor : old;

		if (__sync_val_compare_and_swap(finish_ns, old, start + cost) == old)
			return start;
		count->passed.retries++;
	}
	return __sync_fetch_and_add(finish_ns, cost);
}

/*
 * Returns the first free time from own on, or queue if every slot before it is full. A global
 * function, like occupy_slots, so that the verifier checks it once.
 */
__attribute__((noinline)) __s64 lookup_slot(struct shaper_state *state, const struct slot_set *slots, __s64 own, __s64 queue)
{
	if (!state || !slots)
		return queue;
	for (int i = 0; i < SHAPER_SLOTS && own < queue; i++) {
		__s64 slot = own >> (slots->shift & 63), end = (slot + 1) << (slots->shift & 63);
		__s64 taken = state->ahead_ns[slots->paced & 1][slot & (SHAPER_SLOTS - 1)];

		taken = taken > slots->now ? taken : slots->now;
		if (taken < end)
			return taken > own ? taken : own;
		own = end;
	}
	return queue;
}

/* Occupies cost ns in the slot of start; the rest goes to the slots after it. */
__attribute__((noinline)) int occupy_slots(struct shaper_state *state, const struct slot_set *slots, __s64 start, __s64 cost)
{
	if (!state || !slots)
		return 0;
	__s64 slot = start >> (slots->shift & 63), floor = slot << (slots->shift & 63);

	floor = floor > slots->now ? floor : slots->now;
	for (int i = 0; i < SHAPER_SLOTS && cost > 0; i++) {
		__s64 *taken = &state->ahead_ns[slots->paced & 1][slot & (SHAPER_SLOTS - 1)], end = (slot + 1) << (slots->shift & 63);
		__s64 old = *(volatile __s64 *)taken, from = old > floor ? old : floor, piece = end - from < cost ? end - from : cost;

		if (piece > 0) {
			if (__sync_val_compare_and_swap(taken, old, from + piece) != old)
				continue; /* another CPU won the race */
			cost -= piece;
		}
		floor = end;
		slot++;
	}
	return 0;
}

/* Keeps a flow in order when it changes between paced and unpaced slots. */
static __always_inline __s64 keep_order(const struct shaper_flow *flow, __s64 start)
{
	return start > flow->departure_ns ? start : flow->departure_ns;
}

/*
 * Looks up a time before first in the other set of slots for an isolated small packet. Such a
 * packet occupies both sets, so that small packets do not exceed the rate.
 */
static __always_inline __s64 lookup_small_slot(struct shaper_state *state, struct slot_set *slots, __s64 own, __s64 first, __s64 cost)
{
	struct slot_set other = {slots->now, slots->shift, !slots->paced};
	__s64 second = lookup_slot(state, &other, own, first);

	if (second >= first)
		return first;
	occupy_slots(state, slots, first, cost);
	*slots = other;
	return second;
}

#endif
