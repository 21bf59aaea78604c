/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fair shares of siblings within their parent.
 *
 * A parent has a fair rate F per unit of weight, which follows the unused rate and the queue like
 * the fair rate of a flow (fair.h). A child may use A = max(min, weight * F), up to its own rate; F
 * includes the share of idle siblings. A child reads F once per interval, without access to its
 * siblings, and a parent that is a child derives F from its own A.
 */
#ifndef WEIR_LIMIT_FAIR_SHARE_H
#define WEIR_LIMIT_FAIR_SHARE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bounds.h"
#include "limit.h"
#include "maps.h"

#define SECOND 1000000000ULL
#define FRAME LIMIT_FRAME

/* Current rate and thresholds of one direction of a scope. */
struct terms {
	__u64 rate; /* octet/s */
	__u64 cost; /* ns per byte, times 2^LIMIT_COST_SHIFT */
	__s64 burst_ns, mark_ns, large_ns, drop_ns, ceiling_ns; /* as in limit_config */
};

/*
 * Reports whether length ns have passed since start. Another CPU or an interrupt may have set start
 * later than the packet read its clock; the signed difference is then negative.
 */
static __always_inline __u32 has_elapsed(__u64 now, __u64 start, __u64 length)
{
	return (__s64)(now - start) >= (__s64)length;
}

/*
 * Returns the current terms. A child with a low share gets thresholds for that rate: no packet fits
 * into a queue shorter than itself.
 */
static __always_inline struct terms terms_of(const struct limit_config *config, const struct limit_fair_share *share)
{
	struct terms terms = {
		.rate = config->rate, .cost = config->cost, .burst_ns = config->burst_ns,
		.mark_ns = config->mark_ns, .large_ns = config->large_ns, .drop_ns = config->drop_ns,
		.ceiling_ns = config->ceiling_ns,
	};

	if (!config->weight || !share->allowed || share->allowed >= config->rate)
		return terms;
	terms.rate = share->allowed;
	terms.cost = share->cost;
	__u64 frame = FRAME * terms.cost >> LIMIT_COST_SHIFT;

	terms.burst_ns = at_least(config->burst_ns, tuned.burst_frames * frame);
	terms.mark_ns = at_least(config->mark_ns, tuned.mark_frames * frame);
	terms.drop_ns = at_least(config->drop_ns, tuned.drop_frames * frame);
	terms.large_ns = terms.drop_ns - at_least(config->drop_ns - config->large_ns, tuned.reserve_frames * frame);
	terms.ceiling_ns = tuned.ceiling_drops * terms.drop_ns;
	return terms;
}

/* Returns the parent of a scope plus one; 0 for none. */
static __always_inline __u32 parent_of(__u32 scope)
{
	struct limit_node *node = bpf_map_lookup_elem(&limit_tree, &scope);

	return node ? node->parent : 0;
}

/*
 * Scales the step of a factor (of 1024) by part / all, rounded to nearest: truncation would drift
 * downwards.
 */
static __always_inline __u64 softened(__u64 factor, __u64 part, __u64 all)
{
	return (factor * part + 1024 * (all - part) + all / 2) / all;
}

/*
 * Returns the factor of a parent. Children follow within their own intervals, so its steps are
 * small compared with theirs: two loops of equal speed would oscillate. If its queue is long, the
 * parent yields at once: otherwise marks and reductions act first, collapsed congestion windows
 * leave the parent underused on average, and F stays too high.
 */
static __always_inline __u64 parent_factor(__u64 factor, __u64 elapsed, struct limit_fair_share *share)
{
	__u64 slowest = share->slowest_ns;

	share->slowest_ns = slowest - (slowest >> tuned.slowest_decay_shift) - 1;
	if (share->congested) {
		share->congested = 0;
		return at_most(factor, tuned.max_congested);
	}
	return softened(at_most(factor, tuned.max_rise), elapsed, elapsed + 2 * slowest + 1);
}

/* Updates F, bounded to rate / 2^20 .. rate. */
static __always_inline void move_unit(struct limit_fair_share *share, __u64 rate, __u64 factor)
{
	__u64 upper = rate << LIMIT_UNIT_SHIFT, lower = upper >> 20;
	__u64 unit = share->unit * factor >> 10;

	if (unit < lower)
		unit = lower;
	share->unit = at_most(at_least(unit, tuned.min_unit), upper);
}

/*
 * Returns the rate that the parent grants a child in byte/s: the full rate if the parent does not
 * limit this direction, or is a shadow.
 */
static __always_inline __u64 granted_by_parent(__u32 index, const struct limit_config *config, __u64 now, __u64 interval)
{
	__u32 parent = parent_of(index >> 1), above = (parent - 1) * 2 + (index & 1);

	if (!parent)
		return config->rate;
	struct limit_config *limits = bpf_map_lookup_elem(&limit_configs, &above);
	struct limit_fair_share *share = bpf_map_lookup_elem(&limit_shares, &above);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &above);

	if (!limits || !share || !state || !(limits->flags & LIMIT_ENFORCED) || limits->flags & ~config->flags & LIMIT_SHADOW)
		return config->rate;
	interval = at_most(interval, tuned.max_follow_ns);
	if (interval > share->slowest_ns)
		share->slowest_ns = interval;
	/* Children that drop all packets leave the parent without a packet to end its interval. */
	__u64 start = state->interval_start_ns, longest = at_least(share->slowest_ns, at_least(state->min_interval_ns, limits->mark_ns));

	if (has_elapsed(now, start, tuned.silent_intervals * longest) && __sync_val_compare_and_swap(&state->interval_start_ns, start, now) == start)
		move_unit(share, terms_of(limits, share).rate, tuned.max_rise);
	return share->unit * config->weight >> LIMIT_UNIT_SHIFT;
}

/*
 * Updates the rate of a child. Its own fair rates scale at once, so that its loop has to find only
 * the number of its flows.
 */
static __always_inline void renew_allowed(__u32 index, const struct limit_config *config, struct limit_state *state,
					struct limit_fair_share *share, __u64 before, __u64 now, __u64 interval)
{
	__u64 rate = granted_by_parent(index, config, now, interval);

	rate = at_most(at_least(at_least(rate, config->min), tuned.min_allowed), config->rate);
	if (rate == before || !before)
		return;
	__u64 ratio = at_most(((rate << 10) + before / 2) / before, (__u64)tuned.max_ratio << 10);
	__s64 finish = *(volatile __s64 *)&state->finish_ns;

	/*
	 * The queue keeps its bytes at a higher rate; at a lower rate the excess is forgiven, so that
	 * the queue stays bounded.
	 */
	if (rate > before && finish > (__s64)now)
		__sync_val_compare_and_swap(&state->finish_ns, finish, (__s64)(now + (((__u64)finish - now) << 10) / ratio));
	state->fair_rate = (state->fair_rate * ratio >> 10) + 1;
	share->unit = share->unit * ratio >> 10;
	share->cost = (SECOND << LIMIT_COST_SHIFT) / rate;
	share->allowed = rate;
}

/*
 * Reports whether the packet is within the guaranteed rate: a second virtual queue at rate min.
 * covered means that a child has guaranteed it; the packet is charged here too.
 */
static __always_inline __u32 charge_guaranteed(struct limit_fair_share *share, const struct limit_config *config,
					const struct terms *terms, __s64 now, __s64 cost, __u32 covered)
{
	__s64 floor = now - terms->burst_ns;
	__s64 old = *(volatile __s64 *)&share->guaranteed_ns;
	__s64 start = old < floor ? floor : old;

	if (start > now + terms->mark_ns)
		return covered;
	/* A lost race leaves the packet uncovered, an error of one packet on the safe side. */
	return __sync_val_compare_and_swap(&share->guaranteed_ns, old, start + cost) == old || covered;
}

#endif
