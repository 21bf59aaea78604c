/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rate that a scope lets one flow have. */
#ifndef WEIR_LIMIT_FAIR_H
#define WEIR_LIMIT_FAIR_H

#include "fair_share.h"

#define PAIR (2 * FRAME) /* what pacing.h leaves of super-packets where rates are low */
#define NEARLY_SHIFT 4          /* an equal part less a sixteenth */
#define NO_QUEUE 0x7fffffffffffffffLL

/*
 * The factor, of 1024, for an interval of T ns: 1 + ((1 - min(q/T, 1/2)) - y/C) / 2. C is the
 * target, y the rate offered: a queue is drained with at most half of the rate, however long it is,
 * so that the fair rate does not collapse meanwhile. Where less than half of the rate is used, no
 * queue stands and no TCP sender was heard of, for whom there is least_rate(), it doubles the rate
 * for each time due that the interval has lasted: unresponsive traffic that has ended leaves the
 * lowest fair rate behind; the first packets after a silence find it gone. With senders, which
 * follow an interval late, it would go too far.
 *
 * With round trips of L ns the step is T / (T + L) of that, as in RCP, and a queue is drained in T
 * + L: a sender that begins or ends its pause, or is limited by its cwnd, is silent for a round
 * trip, and a loop that is faster answers with a rate for those that are left, which all then use
 * at once. Pauses make rates of single intervals differ and intervals longer: the square makes the
 * factors of as much too much and too little one in product, and an interval weighs by its length,
 * one and a half times due at most, so that it is the mean rate that comes to the target. Both only
 * where flows follow promptly.
 *
 * q is the shortest queue that a packet of the interval has met, the standing queue: a packet that
 * meets the end of another sender's super-packet says nothing, and at 10 Mbit/s one super-packet of
 * 64 KiB is 52 ms.
 */
static __always_inline __u64 rate_factor(__u64 target, __u64 bytes, __s64 queue, __u64 elapsed, __u64 rtt, __u64 due,
					 __u32 senders, __u32 prompt)
{
	__u64 offered = at_most(bytes * SECOND / elapsed * 512 / target, tuned.offered_most);
	__u64 drained = queue > 0 ? (__u64)queue * 512 / (elapsed + rtt) : 0;

	drained = at_most(drained, tuned.drained_most);
	if (!drained && offered < 256 && !senders)
		return 1024 << at_most(elapsed / (due | 1), tuned.doublings_most);
	if (!prompt)
		return softened(1024 + 512 - offered, due, due + rtt) - drained;
	__u64 most = due + (due >> 1), factor = softened(1024 + 512 - offered, elapsed < most ? elapsed : most, due + rtt);

	return factor + ((factor - 1024) * (factor - 1024) >> 11) - drained;
}

/*
 * Whether flows follow within an interval, of a mark threshold that holds many packets. Elsewhere
 * its length is more that of its packets than of pauses, and a longer step goes too far.
 */
static __always_inline __u32 follows(const struct limit_state *state, const struct terms *terms, __u64 target)
{
	return (state->interval_least_ns <= terms->mark_ns) & (target * terms->mark_ns >= tuned.prompt_frames * FRAME * SECOND);
}

static __always_inline __u64 target_of(__u64 rate)
{
	return (rate * tuned.target_share >> 10) + 1;
}

/*
 * The highest fair rate, at which a scope limits no flow. That of the whole rate is limit_config's.
 */
static __always_inline __u64 fair_rate_most(__u32 index, __u64 target)
{
	return (index & 1) == LIMIT_INGRESS ? target << tuned.ingress_headroom_shift : target + (target >> tuned.headroom_shift);
}

/*
 * Counts the TCP senders. The callbacks of their sockets (pacing.h) report who was met; the flow
 * count ends with the interval in which they have sent one and a half of the largest super-packets
 * each on average, so that hardly one was missed, and 16 in all, and no less than least octets.
 */
static __always_inline void update_flow_count(struct limit_state *state, struct limit_fair_share *share, __u64 bytes, __u64 least,
					__u32 silent)
{
	__u64 largest = at_least(state->interval_largest, FRAME), sum = share->flow_count_bytes + bytes;
	__u32 counted = share->counted;

	share->flow_count_bytes = sum;
	if (silent) {
		share->senders = 0;
		share->rtt_us = 0;
	}
	if (!counted || sum < least || sum < tuned.flow_count_super_packets * largest || 2 * sum < 3 * largest * counted)
		return;
	share->senders = counted;
	share->flow_count_bytes = 0;
	state->flow_count++;
	__sync_fetch_and_add(&share->counted, -counted);
}

/*
 * The least fair rate with so many TCP senders: nearly an equal part of the target, half of one
 * where a queue stands or three quarters are used, since others than they may use a part. The loop
 * alone goes far below where many begin at once, for it drains a queue that their pace is not to
 * blame for, and at a low rate it is long on the way back.
 */
static __always_inline __u64 least_rate(__u64 target, __u32 senders, __u32 busy)
{
	__u64 least = (target >> 10) + 1;

	if (!senders)
		return least;
	return at_least(busy ? target / senders >> 1 : (target - (target >> NEARLY_SHIFT)) / senders, least);
}

/*
 * The time of two of the largest super-packets at the fair rate, 4 s at most, and no less than that
 * of two pairs: single segments are acknowledged two at a time, so that their senders hear of a new
 * rate no more often. A flow whose cwnd is not bounded yet, or no more, sends super-packets of up
 * to 64 KiB however low its rate; one must not stop the loop for seconds.
 */
static __always_inline __u64 interval_of(__u64 largest, __u64 rate)
{
	__u64 interval = 2 * at_least(largest, PAIR) * SECOND / rate, most = at_least(2 * PAIR * SECOND / rate, tuned.oversize_ns);

	return at_most(at_most(interval, most), tuned.interval_most_ns);
}

/*
 * Round-trip time of the scope's senders, ns; no more than the queue can be before packets are
 * dropped.
 */
static __always_inline __u64 rtt_of(const struct limit_fair_share *share, const struct terms *terms)
{
	__u64 rtt = 1000 * (__u64)share->rtt_us;

	return rtt < terms->drop_ns ? rtt : terms->drop_ns;
}

/* The least length of the current interval, ns. */
static __always_inline __u64 interval_length(const struct limit_state *state, const struct limit_fair_share *share,
					   const struct terms *terms)
{
	return at_least(state->interval_least_ns, at_least(terms->mark_ns, share->slowest_ns));
}

/*
 * Counts a packet in its interval, which lasts length ns at least. paced is wire for a packet whose
 * sender follows the rate, 0 for others; met is the queue that this packet has met. Processors race
 * for the shortest queue and the largest packet with plain stores, which may lose one. Returns
 * whether the interval is over, so that end_interval() is due.
 */
static __always_inline __u32 measure(struct limit_state *state, __u64 length, __u64 now, __u64 wire, __u64 paced, __s64 met)
{
	__sync_fetch_and_add(&state->interval_bytes, wire);
	if (met < state->interval_queue_ns)
		state->interval_queue_ns = met;
	if (paced > state->interval_largest)
		state->interval_largest = paced;
	return over(now, state->interval_start_ns, length);
}

/*
 * Moves the fair rate once per interval T. A flow follows a new rate with its next super-packet,
 * whose time was fixed when the last one left, so T holds two of the largest super-packets of the
 * last interval at the lesser of both, and no less than a mark threshold. Intervals are ended by
 * one processor, which wins the compare-and-swap. Global, so that its stack is not added to that of
 * charge_scope(), whose verification it would multiply.
 */
__attribute__((noinline)) int end_interval(__u32 index, __u64 now)
{
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);
	struct limit_fair_share *share = bpf_map_lookup_elem(&limit_shares, &index);

	if (!config || !state || !share)
		return 0;
	struct terms terms = terms_of(config, share);
	__u64 start = state->interval_start_ns, elapsed = now - start, slowest = share->slowest_ns;
	__u64 least = at_least(terms.mark_ns, slowest), due = interval_length(state, share, &terms);

	if (!over(now, start, due))
		return 0;
	__u64 before = state->fair_rate;

	if (__sync_val_compare_and_swap(&state->interval_start_ns, start, now) != start)
		return 0;
	__u64 bytes = state->interval_bytes, target = target_of(terms.rate), rtt = rtt_of(share, &terms);
	__s64 queue = state->interval_queue_ns;

	update_flow_count(state, share, bytes, tuned.flow_count_rtts * rtt * target / SECOND, elapsed > tuned.silence_ns);
	__u32 senders = share->senders;
	__u64 floor = least_rate(target, senders, queue > 0 || 4 * bytes * SECOND / elapsed > 3 * target);

	__sync_fetch_and_add(&state->interval_bytes, -bytes);
	state->interval_queue_ns = NO_QUEUE;
	elapsed = at_most(elapsed, tuned.elapsed_most_ns);
	/*
	 * Senders that pause are made up for by those that do not only on average; the queue takes the
	 * difference.
	 */
	queue -= rtt >> tuned.tolerated_shift;
	__u64 factor = rate_factor(target, bytes, queue, elapsed, rtt, due, senders, follows(state, &terms, target));

	if (slowest)
		factor = parent_factor(factor, elapsed, share);
	__u64 rate = at_most(at_least(before * factor >> 10, floor), fair_rate_most(index, target));

	/* Where no TCP sender was heard of there is none whose time must fit into the next. */
	__u64 interval = state->interval_largest | senders ? interval_of(state->interval_largest, slowest ? target : rate < before ? rate : before) : 0;

	state->interval_largest = 0;
	state->interval_least_ns = interval;
	state->fair_rate = rate;
	state->updates++;
	move_unit(share, terms.rate, factor);
	if (config->weight)
		renew_allowed(index, config, state, share, terms.rate, now, rtt + (interval > least ? interval : least));
	return 0;
}

#endif
