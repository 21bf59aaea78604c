/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fair rate: the rate of one flow in a scope. */
#ifndef WEIR_LIMIT_FAIR_H
#define WEIR_LIMIT_FAIR_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "fair_share.h"
#include "limit.h"
#include "maps.h"

#define PAIR (2 * FRAME) /* super-packet size at low rates (pacing.h) */
#define NEARLY_SHIFT 4          /* an equal share minus 1/16 */
#define NO_QUEUE 0x7fffffffffffffffLL

/*
 * Returns the factor, of 1024, for an interval of T ns: 1 + ((1 - min(q/T, 1/2)) - y/C) / 2, with
 * target C and offered rate y. At most half of the rate drains a queue of any length, so that the
 * fair rate does not collapse meanwhile. If less than half of the rate is used, no queue stands and
 * no TCP sender was counted (min_rate() covers senders), the rate doubles once per due time within
 * the interval: it recovers from unresponsive traffic with the first packets after a silence. With
 * senders, which follow an interval late, that would overshoot.
 *
 * With RTT L the step is T / (T + L) of that, as in RCP, and a queue is drained in T + L: a sender
 * that starts, pauses or is limited by its cwnd is silent for one RTT, and a faster loop would
 * raise the rate of the others meanwhile. Pauses make single intervals differ and last longer. The
 * square makes the factors for equal excess and deficit cancel, and an interval counts by its
 * length, up to 1.5 times due, so that the mean rate reaches the target. Both apply only if flows
 * follow promptly.
 *
 * q is the minimum queue at a packet of the interval, the standing queue: at 10 Mbit/s one
 * super-packet of 64 KiB of another sender is 52 ms.
 */
static __always_inline __u64 rate_factor(__u64 target, __u64 bytes, __s64 queue, __u64 elapsed, __u64 rtt, __u64 due,
					 __u32 senders, __u32 prompt)
{
	__u64 offered = at_most(bytes * SECOND / elapsed * 512 / target, tuned.max_offered);
	__u64 drained = queue > 0 ? (__u64)queue * 512 / (elapsed + rtt) : 0;

	drained = at_most(drained, tuned.max_drained);
	if (!drained && offered < 256 && !senders)
		return 1024 << at_most(elapsed / (due | 1), tuned.max_doublings);
	if (!prompt)
		return softened(1024 + 512 - offered, due, due + rtt) - drained;
	__u64 upper = due + (due >> 1), factor = softened(1024 + 512 - offered, elapsed < upper ? elapsed : upper, due + rtt);

	return factor + ((factor - 1024) * (factor - 1024) >> 11) - drained;
}

/*
 * Reports whether flows follow within an interval: the mark threshold holds many packets. Otherwise
 * packet times dominate the interval, and a longer step overshoots.
 */
static __always_inline __u32 is_prompt(const struct limit_state *state, const struct terms *terms, __u64 target)
{
	return (state->min_interval_ns <= terms->mark_ns) & (target * terms->mark_ns >= tuned.prompt_frames * FRAME * SECOND);
}

static __always_inline __u64 target_of(__u64 rate)
{
	return (rate * tuned.target_share >> 10) + 1;
}

/*
 * Returns the maximum fair rate, at which a scope limits no flow. limit_config has that of the full
 * rate.
 */
static __always_inline __u64 max_fair_rate(__u32 index, __u64 target)
{
	return (index & 1) == LIMIT_INGRESS ? target << tuned.ingress_headroom_shift : target + (target >> tuned.headroom_shift);
}

/*
 * Updates the count of TCP senders. Socket callbacks (pacing.h) report senders. A flow count ends
 * with the interval after which the average sender has sent 1.5 of the largest super-packets, so
 * that hardly any is missed, with 16 super-packets and lower bytes in total.
 */
static __always_inline void update_flow_count(struct limit_state *state, struct limit_fair_share *share, __u64 bytes, __u64 lower,
					__u32 silent)
{
	__u64 largest = at_least(state->interval_largest, FRAME), sum = share->flow_count_bytes + bytes;
	__u32 counted = share->counted;

	share->flow_count_bytes = sum;
	if (silent) {
		share->senders = 0;
		share->rtt_us = 0;
	}
	if (!counted || sum < lower || sum < tuned.flow_count_super_packets * largest || 2 * sum < 3 * largest * counted)
		return;
	share->senders = counted;
	share->flow_count_bytes = 0;
	state->flow_count++;
	__sync_fetch_and_add(&share->counted, -counted);
}

/*
 * Returns the minimum fair rate for a number of TCP senders: nearly an equal share of the target,
 * or half of one if a queue stands or three quarters are used, since other traffic may use a part.
 * Without it the loop undershoots when many senders start at once, and recovers slowly from low
 * rates.
 */
static __always_inline __u64 min_rate(__u64 target, __u32 senders, __u32 busy)
{
	__u64 lower = (target >> 10) + 1;

	if (!senders)
		return lower;
	return at_least(busy ? target / senders >> 1 : (target - (target >> NEARLY_SHIFT)) / senders, lower);
}

/*
 * Returns the time of two of the largest super-packets at the fair rate, 4 s at most, and at least
 * that of two segment pairs: the receiver acknowledges single segments in pairs, so senders update
 * their rate no more often. A flow without a cwnd bound sends super-packets of up to 64 KiB at any
 * rate; these must not stop the loop for seconds.
 */
static __always_inline __u64 interval_of(__u64 largest, __u64 rate)
{
	__u64 interval = 2 * at_least(largest, PAIR) * SECOND / rate, upper = at_least(2 * PAIR * SECOND / rate, tuned.oversize_ns);

	return at_most(at_most(interval, upper), tuned.max_interval_ns);
}

/* Returns the RTT of the senders in ns, bounded by the drop threshold. */
static __always_inline __u64 rtt_of(const struct limit_fair_share *share, const struct terms *terms)
{
	__u64 rtt = 1000 * (__u64)share->rtt_us;

	return rtt < terms->drop_ns ? rtt : terms->drop_ns;
}

/* Returns the minimum length of the current interval in ns. */
static __always_inline __u64 interval_length(const struct limit_state *state, const struct limit_fair_share *share,
					   const struct terms *terms)
{
	return at_least(state->min_interval_ns, at_least(terms->mark_ns, share->slowest_ns));
}

/*
 * Counts a packet in its interval of at least length ns. paced is wire if its sender follows the
 * rate, else 0; met is the queue at this packet. CPUs race with plain stores, which may lose one
 * value. Returns whether end_interval() is due.
 */
static __always_inline __u32 measure(struct limit_state *state, __u64 length, __u64 now, __u64 wire, __u64 paced, __s64 met)
{
	__sync_fetch_and_add(&state->interval_bytes, wire);
	if (met < state->interval_queue_ns)
		state->interval_queue_ns = met;
	if (paced > state->interval_largest)
		state->interval_largest = paced;
	return has_elapsed(now, state->interval_start_ns, length);
}

/*
 * Updates the fair rate once per interval T. A flow applies a new rate with its next super-packet,
 * which has a fixed departure since the last one left, so T covers two of the largest super-packets
 * of the last interval at the lower of both rates, and at least a mark threshold. The CPU that wins
 * the compare-and-swap ends the interval. A global function, to keep its stack and verification
 * apart from charge_scope().
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
	__u64 lower = at_least(terms.mark_ns, slowest), due = interval_length(state, share, &terms);

	if (!has_elapsed(now, start, due))
		return 0;
	__u64 before = state->fair_rate;

	if (__sync_val_compare_and_swap(&state->interval_start_ns, start, now) != start)
		return 0;
	__u64 bytes = state->interval_bytes, target = target_of(terms.rate), rtt = rtt_of(share, &terms);
	__s64 queue = state->interval_queue_ns;

	update_flow_count(state, share, bytes, tuned.flow_count_rtts * rtt * target / SECOND, elapsed > tuned.silence_ns);
	__u32 senders = share->senders;
	__u64 floor = min_rate(target, senders, queue > 0 || 4 * bytes * SECOND / elapsed > 3 * target);

	__sync_fetch_and_add(&state->interval_bytes, -bytes);
	state->interval_queue_ns = NO_QUEUE;
	elapsed = at_most(elapsed, tuned.max_elapsed_ns);
	/*
	 * Active senders compensate for pausing ones only on average; the queue absorbs the difference.
	 */
	queue -= rtt >> tuned.tolerated_shift;
	__u64 factor = rate_factor(target, bytes, queue, elapsed, rtt, due, senders, is_prompt(state, &terms, target));

	if (slowest)
		factor = parent_factor(factor, elapsed, share);
	__u64 rate = at_most(at_least(before * factor >> 10, floor), max_fair_rate(index, target));

	/* Without TCP senders the next interval needs no minimum. */
	__u64 interval = state->interval_largest | senders ? interval_of(state->interval_largest, slowest ? target : rate < before ? rate : before) : 0;

	state->interval_largest = 0;
	state->min_interval_ns = interval;
	state->fair_rate = rate;
	state->updates++;
	move_unit(share, terms.rate, factor);
	if (config->weight)
		renew_allowed(index, config, state, share, terms.rate, now, rtt + (interval > lower ? interval : lower));
	return 0;
}

#endif
