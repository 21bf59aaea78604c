/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fair shares among siblings: what a scope may use of its parent now.
 *
 * A parent has a fair rate F per unit of weight, which moves with the rest of its rate and its
 * queue like the fair rate of a flow (fair.h). A child may use A = max(min, weight * F), its own
 * rate at most; an idle sibling's part is in F. Nobody looks at siblings: a child asks for F once
 * per interval, and a parent that is a child passes its own A on the same way.
 */
#ifndef WEIR_LIMIT_FAIR_SHARE_H
#define WEIR_LIMIT_FAIR_SHARE_H

#include "maps.h"

#define SECOND 1000000000ULL
#define FRAME LIMIT_FRAME

/* What is in force in one direction of a scope. */
struct terms {
	__u64 rate; /* octet/s */
	__u64 cost; /* ns per octet, times 2^LIMIT_COST_SHIFT */
	__s64 burst_ns, mark_ns, large_ns, drop_ns, ceiling_ns; /* as in limit_config */
};

static __always_inline __s64 at_least(__u64 value, __u64 least)
{
	return value < least ? least : value;
}

static __always_inline __u64 at_most(__u64 value, __u64 most)
{
	return value > most ? most : value;
}

/*
 * Whether so many ns have passed since start. A packet reads the clock once, and start may be of
 * another one that read it later, on another processor or in an interrupt: then none have, and not
 * 2^64 less some.
 */
static __always_inline __u32 over(__u64 now, __u64 start, __u64 length)
{
	return (__s64)(now - start) >= (__s64)length;
}

/*
 * A child that may use little now has the thresholds of a scope of that rate: in a queue shorter
 * than a packet nothing fits.
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

/* The parent of a scope, plus one; 0 for none. */
static __always_inline __u32 parent_of(__u32 scope)
{
	struct limit_node *node = bpf_map_lookup_elem(&limit_tree, &scope);

	return node ? node->parent : 0;
}

/*
 * A factor, of 1024, of whose step part / all is taken, rounded to the nearest: cut off, it would
 * drift downwards.
 */
static __always_inline __u64 softened(__u64 factor, __u64 part, __u64 all)
{
	return (factor * part + 1024 * (all - part) + all / 2) / all;
}

/*
 * The factor by which a parent moves. Its children follow within their own intervals, so it moves
 * by a step that is small against theirs: two loops of one speed would swing against each other.
 * But where its queue has run up it gives way at once. If it waited, marks and reductions would
 * take its place: congestion windows that have collapsed leave the parent unused on average, and F
 * would never find out that it is too high.
 */
static __always_inline __u64 parent_factor(__u64 factor, __u64 elapsed, struct limit_fair_share *share)
{
	__u64 slowest = share->slowest_ns;

	share->slowest_ns = slowest - (slowest >> tuned.slowest_decay_shift) - 1;
	if (share->congested) {
		share->congested = 0;
		return at_most(factor, tuned.congested_most);
	}
	return softened(at_most(factor, tuned.rise_most), elapsed, elapsed + 2 * slowest + 1);
}

/* Moves F, bounded to rate / 2^20 .. rate. */
static __always_inline void move_unit(struct limit_fair_share *share, __u64 rate, __u64 factor)
{
	__u64 most = rate << LIMIT_UNIT_SHIFT, least = most >> 20;
	__u64 unit = share->unit * factor >> 10;

	if (unit < least)
		unit = least;
	share->unit = at_most(at_least(unit, tuned.unit_least), most);
}

/*
 * What the parent leaves to a child, octet/s; all where it does not limit this direction, or only
 * in shadow.
 */
static __always_inline __u64 left_by_parent(__u32 index, const struct limit_config *config, __u64 now, __u64 interval)
{
	__u32 parent = parent_of(index >> 1), above = (parent - 1) * 2 + (index & 1);

	if (!parent)
		return config->rate;
	struct limit_config *limits = bpf_map_lookup_elem(&limit_configs, &above);
	struct limit_fair_share *share = bpf_map_lookup_elem(&limit_shares, &above);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &above);

	if (!limits || !share || !state || !(limits->flags & LIMIT_ENFORCED) || limits->flags & ~config->flags & LIMIT_SHADOW)
		return config->rate;
	interval = at_most(interval, tuned.follow_most_ns);
	if (interval > share->slowest_ns)
		share->slowest_ns = interval;
	/*
	 * Children that drop everything leave the parent without a packet to find out that it is not
	 * used.
	 */
	__u64 start = state->interval_start_ns, longest = at_least(share->slowest_ns, at_least(state->interval_least_ns, limits->mark_ns));

	if (over(now, start, tuned.silent_intervals * longest) && __sync_val_compare_and_swap(&state->interval_start_ns, start, now) == start)
		move_unit(share, terms_of(limits, share).rate, tuned.rise_most);
	return share->unit * config->weight >> LIMIT_UNIT_SHIFT;
}

/*
 * Renews what a child may use. Its fair rates follow in proportion at once, so that its own loop
 * need not find out; what it finds out is only how many flows share them.
 */
static __always_inline void renew_allowed(__u32 index, const struct limit_config *config, struct limit_state *state,
					struct limit_fair_share *share, __u64 before, __u64 now, __u64 interval)
{
	__u64 rate = left_by_parent(index, config, now, interval);

	rate = at_most(at_least(at_least(rate, config->min), tuned.allowed_least), config->rate);
	if (rate == before || !before)
		return;
	__u64 ratio = at_most(((rate << 10) + before / 2) / before, (__u64)tuned.ratio_most << 10);
	__s64 finish = *(volatile __s64 *)&state->finish_ns;

	/*
	 * The queue holds the same octets at the new rate; where that is lower, they are forgiven, so
	 * that it stays bounded.
	 */
	if (rate > before && finish > (__s64)now)
		__sync_val_compare_and_swap(&state->finish_ns, finish, (__s64)(now + (((__u64)finish - now) << 10) / ratio));
	state->fair_rate = state->fair_rate * ratio >> 10;
	share->unit = share->unit * ratio >> 10;
	share->cost = (SECOND << LIMIT_COST_SHIFT) / rate;
	share->allowed = rate;
}

/*
 * Whether the packet belongs to what the scope is guaranteed: a second virtual queue at rate min.
 * covered says that a child has guaranteed it already; then it is charged here too, so that others
 * do not use it again.
 */
static __always_inline __u32 guaranteed(struct limit_fair_share *share, const struct limit_config *config,
					const struct terms *terms, __s64 now, __s64 cost, __u32 covered)
{
	__s64 floor = now - terms->burst_ns;
	__s64 old = *(volatile __s64 *)&share->guaranteed_ns;
	__s64 start = old < floor ? floor : old;

	if (start > now + terms->mark_ns)
		return covered;
	/* The loser of the race is not covered, and errs by one packet on the safe side. */
	return __sync_val_compare_and_swap(&share->guaranteed_ns, old, start + cost) == old || covered;
}

#endif
