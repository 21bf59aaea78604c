/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the scopes of a TCP socket allow it. */
#ifndef WEIR_LIMIT_PACING_H
#define WEIR_LIMIT_PACING_H

#include "fair_share.h"
#include "pace.h"

/* What a socket may use. */
struct allowance {
	__u64 rate;     /* octet/s, the smallest fair rate of its scopes; UNLIMITED without one */
	__u64 ahead_ns; /* how much of it may be in flight beyond two round trips */
	__u64 most;     /* octet/s, the rate of that scope */
	__u32 index;    /* of the scope with that fair rate and the direction, in every map */
};

/* A moving mean, which begins with its first value. */
static __always_inline __u32 mean_rtt(__u32 mean, __u32 rtt_us)
{
	__u32 shift = tuned.rtt_mean_shift;

	return mean ? (((1 << shift) - 1) * (__u64)mean + rtt_us) >> shift : rtt_us;
}

/*
 * Counts a TCP sender, and how long its round trips are, once in a flow count of its scope; fair.h
 * uses them.
 */
static __always_inline void count_flow(__u32 *counted, __u32 index, const struct limit_state *state, __u32 rtt_us)
{
	__u32 flow_count = state->flow_count + 1;

	if (*counted == flow_count)
		return;
	*counted = flow_count;
	struct limit_fair_share *share = bpf_map_lookup_elem(&limit_shares, &index);

	if (!share)
		return;
	__sync_fetch_and_add(&share->counted, 1);
	if (rtt_us < UNBOUND)
		share->rtt_us = mean_rtt(share->rtt_us, rtt_us);
}

/*
 * A parent's fair rate is that of a flow of its own. It does not hold for flows of its children,
 * whose weights differ: they get their fair share through what the child may use.
 */
static __always_inline struct allowance allowance_of(struct socket_state *known, __u32 direction, __u32 rtt_us)
{
	struct allowance least = {.rate = UNLIMITED};
	__u32 children_of[LIMIT_SCOPES_PER_SOCKET] = {}; /* scopes + 1, parents of scopes before */

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= known->scopes.count)
			break;
		__u32 index = known->scopes.scope[i] * 2 + direction;
		struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (!config || !state || (config->flags & (LIMIT_ENFORCED | LIMIT_SHADOW | LIMIT_CLASSIC)) != LIMIT_ENFORCED)
			continue;
		if (known->loopback && !(config->flags & LIMIT_LOOPBACK))
			continue;
		if (direction == LIMIT_EGRESS)
			count_flow(&known->counted[i], index, state, rtt_us);
		__u32 skip = 0;

		for (int j = 0; j < i; j++)
			skip |= children_of[j] == known->scopes.scope[i] + 1;
		if (config->weight)
			children_of[i] = parent_of(known->scopes.scope[i]);
		if (!skip && state->fair_rate < least.rate) {
			least.rate = state->fair_rate;
			least.ahead_ns = config->mark_ns;
			least.most = config->rate;
			least.index = index;
		}
	}
	return least;
}

#endif
