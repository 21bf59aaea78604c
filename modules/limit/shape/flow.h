/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fair parts of a line: an approximate fair queue in departure times. A departure time is final, so
 * nothing can be reordered later; instead a packet has the earlier of two times:
 *
 *   queue   when all that the line has been charged for has had its time: first in, first out
 *   ahead   when its own flow's packets have had their time at the flow's part of the rate, or the
 *           first slot of time from then on that is not full; paced flows, whose bursts may meet,
 *           go by slots of theirs, others by those of others, and small packets that come alone
 *           by either
 *
 * A slot has room for what the line carries in its time. So one flow's burst, whose packets depart
 * in many slots, leaves another's room in each:
 *
 *   now                                                   queue
 *   | a a . . | a a . . | a a b . | a a . . | a a . . |   a's burst has half of the rate, b departs
 *                         ^ b's own time                  in its slot, not behind the burst
 *
 * What uses less than its part so departs ahead of the queue of those that use more. All are
 * charged to the queue, so that over time no more than the rate departs, and in a moment no more
 * than the rate and what the queue holds. The queue never waits for nothing.
 *
 * The part is that of max-min fairness: a flow of weight w may use w C / N, and
 *
 *   N = sum over flows of w min(1, what it uses / its part)      counted once an interval
 *
 * taken an eighth higher, so that a flow that has more than others is above its part. TCP senders
 * of this host are paced at their part, those to sockets of this host held to it (pacing.h); both
 * are counted by all that they use.
 */
#ifndef WEIR_DELAY_FLOW_H
#define WEIR_DELAY_FLOW_H

#include "../pace.h"
#include "lines.h"

#define ONE_FLOW (1 << DELAY_FLOWS_SHIFT)
#define DEBT_SHIFT 2 /* 2^-n of an interval: how far a flow's queue may end behind the line's, to stay behind it */
#define SPARE_SHIFT 8 /* 2^-n of the rate that paced flows leave, so that no queue stands */
#define IDLE_SHIFT 2  /* 2^-n of the rate, by which one flow may be paced above it: it does not use all that it may */
#define HELD_SHIFT 3  /* 2^n times the rate, that one flow may be held to: its round-trip time may be longer than is known */
#define HEADERS_SHIFT 4 /* 2^-n of a part, by which pacing at it would pass it */
/*
 * used_ns of a flow whose receiver is a TCP socket here, so that its sender can be held: one more
 * when a packet has come to the socket, and with the next interval one less, then 0.
 */
#define DELAY_HELD 0xfffffffeu
#define LONG 0x7fffffff
#define PACED_BURST (2ULL * 1514) /* octets that TCP sends at a time where its pace is low: two segments */
#define MANY 4  /* times the held flows that have sent, which bounds their count: with the least windows they use more than is theirs */
#define SEED 32 /* flows that are assumed when a queue begins */
#define HASH_RATIO 0x9e3779b1 /* 2^32 over the golden ratio, odd */

/* Which slots of a line a packet goes by. */
struct delay_slots {
	__s64 now;
	__u32 shift; /* of the line's slots */
	__u32 paced; /* whether those of paced flows */
};

/* The queue in a line of a child, which shares it with no flow, or of a flow. */
static __always_inline struct delay_flow *delay_flow_of(__u32 child, __u32 hash, __u32 key)
{
	struct delay_state *below = child ? bpf_map_lookup_elem(&delay_states, &child) : 0;

	if (below)
		return &below->part;
	__u32 at = (hash ^ key * HASH_RATIO) * HASH_RATIO >> 18;

	at &= DELAY_FLOWS - 1;
	return bpf_map_lookup_elem(&delay_flows, &at);
}

/*
 * The pace of a flow that has a line for itself, times ONE_FLOW, octet/s: less than its part, since
 * TCP paces without headers, which are one of 22 octets of a full-sized frame.
 */
static __always_inline __u64 delay_pace_of(const struct delay_config *line)
{
	return (__u64)(line->rate - (line->rate >> HEADERS_SHIFT)) << DELAY_FLOWS_SHIFT;
}

/*
 * The count where TCP flows are paced, each at C / N: the N at which they would use nearly all
 * that the others leave, who are counted as above. It goes there by half of T / d of the
 * difference, as in RCP: T is the interval, d the delay of the loop: an interval, a round trip, the
 * queue, which is the shortest wait of a paced flow's packet, and the time in which all flows send
 * a burst each, since a flow sees its new pace with its next one. Paced bursts meet and part, so
 * that a short queue comes and goes: what is beyond half the mark threshold is drained, with up to
 * a third of the rate. Then many have begun at once, and N is no less than the number of those that
 * have sent since.
 */
static __always_inline __u64 delay_count_paced(struct delay_state *state, const struct delay_config *line, __u64 elapsed,
					       __u64 paced, __u64 others)
{
	__u64 wait = (__u64)state->wait_us << 10, loop = elapsed + 1000ULL * state->rtt_us + wait;
	__u64 bursts = line->mark_ns / 2, beyond = wait > bursts ? wait - bursts : 0;
	__u64 now = state->fair_rate ? delay_pace_of(line) / state->fair_rate : ONE_FLOW;
	__u64 senders = state->senders * (__u64)ONE_FLOW + others, want = now * paced / elapsed;
	__u64 turn = (PACED_BURST * line->cost >> LIMIT_COST_SHIFT) * now >> DELAY_FLOWS_SHIFT;

	loop += turn; /* without it 200 flows at 30 Mbit/s use 79 to 95 % (docs/results/limit.md) */
	want += want >> SPARE_SHIFT;
	want += (want * (beyond >> 11) / (loop >> 10)) + others;
	want = now + (want * (elapsed >> 11) / (loop >> 10)) - (now * (elapsed >> 11) / (loop >> 10));
	if (beyond)
		return want > senders ? want : senders;
	state->senders = 0;
	state->since = state->interval_start_ns >> 10;
	return want;
}

/* Begins another interval if this one is over: the first to see it counts. */
static __always_inline void delay_recount(struct delay_state *state, const struct delay_config *line, __s64 now)
{
	__u64 start = state->interval_start_ns, elapsed = now - start, used, paced, held, there, flows, least, rate;

	if ((__s64)elapsed < (__s64)line->interval_ns || __sync_val_compare_and_swap(&state->interval_start_ns, start, (__u64)now) != start)
		return;
	used = __sync_lock_test_and_set(&state->used_ns, 0);
	paced = __sync_lock_test_and_set(&state->paced_ns, 0);
	held = paced && line->flags & DELAY_RECEIVED;
	flows = state->part_ns ? (used << DELAY_FLOWS_SHIFT) / state->part_ns : 0;
	flows += flows >> 3;
	there = flows + __sync_lock_test_and_set(&state->active, 0) * (__u64)ONE_FLOW;
	if (there < ONE_FLOW)
		there = ONE_FLOW; /* a flow that was not held when the interval began is not among them */
	if (paced)
		flows = delay_count_paced(state, line, elapsed, paced, flows);
	else if (!used && state->flows)
		flows = state->flows;
	else if (state->finish_ns <= now && flows < SEED * ONE_FLOW)
		flows = SEED * ONE_FLOW; /* from too many the count comes down at once, from too few it grows by eighths */
	least = held ? ONE_FLOW >> HELD_SHIFT : paced ? ONE_FLOW - (ONE_FLOW >> IDLE_SHIFT) : ONE_FLOW;
	if (flows < least)
		flows = least;
	if (held && flows > MANY * there)
		flows = MANY * there;
	rate = delay_pace_of(line) / (paced ? flows : ONE_FLOW) + 1; /* 0 is before the first interval */
	state->fair_rate = rate < UNLIMITED ? rate : UNLIMITED - 1;
	if (held) { /* whose windows say more than how many share the line */
		flows = flows < there ? flows : there;
		flows = flows > ONE_FLOW ? flows : ONE_FLOW;
	}
	state->wait_us = LONG;
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

/* Counts what a flow uses that is paced or held, and what its packet waits. */
static __always_inline void delay_use_paced(struct delay_state *state, struct delay_flow *flow, __u64 cost, __s64 wait)
{
	__u32 us = wait > 0 ? (__u64)wait >> 10 : 0, interval = state->interval_start_ns >> 10;

	if ((__s32)(flow->interval - state->since) < 0)
		__sync_fetch_and_add(&state->senders, 1);
	if (flow->interval != interval) {
		__sync_fetch_and_add(&state->active, 1);
		flow->used_ns -= flow->used_ns > DELAY_HELD ? 1 : flow->used_ns;
		flow->interval = interval;
	}
	__sync_fetch_and_add(&state->paced_ns, cost);
	if (us < state->wait_us)
		state->wait_us = us;
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

/*
 * When a packet departs that is to do so from own on: ahead of the queue, if there is room before
 * its end. Global, as the next one: verified once.
 */
__attribute__((noinline)) __s64 delay_ahead(struct delay_state *state, const struct delay_slots *slots, __s64 own, __s64 queue)
{
	if (!state || !slots)
		return queue;
	for (int i = 0; i < DELAY_SLOTS && own < queue; i++) {
		__s64 slot = own >> (slots->shift & 63), end = (slot + 1) << (slots->shift & 63);
		__s64 taken = state->ahead_ns[slots->paced & 1][slot & (DELAY_SLOTS - 1)];

		taken = taken > slots->now ? taken : slots->now;
		if (taken < end)
			return taken > own ? taken : own;
		own = end;
	}
	return queue;
}

/* Takes a packet's time from the slot that it departs in, and the rest from those behind. */
__attribute__((noinline)) int delay_take(struct delay_state *state, const struct delay_slots *slots, __s64 start, __s64 cost)
{
	if (!state || !slots)
		return 0;
	__s64 slot = start >> (slots->shift & 63), floor = slot << (slots->shift & 63);

	floor = floor > slots->now ? floor : slots->now;
	for (int i = 0; i < DELAY_SLOTS && cost > 0; i++) {
		__s64 *taken = &state->ahead_ns[slots->paced & 1][slot & (DELAY_SLOTS - 1)], end = (slot + 1) << (slots->shift & 63);
		__s64 old = *(volatile __s64 *)taken, from = old > floor ? old : floor, part = end - from < cost ? end - from : cost;

		if (part > 0) {
			if (__sync_val_compare_and_swap(taken, old, from + part) != old)
				continue; /* once more: another processor was faster */
			cost -= part;
		}
		floor = end;
		slot++;
	}
	return 0;
}

/*
 * When a packet departs that is not to overtake its flow: one that is paced or held from now on goes
 * by other slots than those before it.
 */
static __always_inline __s64 delay_in_order(const struct delay_flow *flow, __s64 start)
{
	return start > flow->departs_ns ? start : flow->departs_ns;
}

/*
 * The same for a small packet of which its own kind's slots have room at first only: those of the
 * other kind may have it before. It takes its time from both, so that small packets depart no
 * faster than the rate either.
 */
static __always_inline __s64 delay_ahead_small(struct delay_state *state, struct delay_slots *slots, __s64 own, __s64 first, __s64 cost)
{
	struct delay_slots other = {slots->now, slots->shift, !slots->paced};
	__s64 second = delay_ahead(state, &other, own, first);

	if (second >= first)
		return first;
	delay_take(state, slots, first, cost);
	*slots = other;
	return second;
}

#endif
