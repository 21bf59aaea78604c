/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rate of a TCP socket. */
#ifndef WEIR_LIMIT_PACING_H
#define WEIR_LIMIT_PACING_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "fair_share.h"
#include "maps.h"
#include "pace.h"

/* Rate and index of the scope with the minimum fair rate. */
struct allowance {
	__u64 rate;     /* byte/s, minimum fair rate of its scopes; UNLIMITED without one */
	__u64 ahead_ns; /* amount in flight in addition to two RTTs */
	__u64 upper;     /* byte/s, rate of that scope */
	__u32 index;    /* of that scope and the direction, in every map */
};

/* Returns the moving mean, which starts with its first value. */
static __always_inline __u32 mean_rtt(__u32 mean, __u32 rtt_us)
{
	__u32 shift = tuned.rtt_mean_shift;

	return mean ? (((1 << shift) - 1) * (__u64)mean + rtt_us) >> shift : rtt_us;
}

/* Counts a TCP sender and its RTT once per flow count of its scope, for fair.h. */
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
 * Looks up the minimum fair rate of the scopes of a socket. Parents of another scope of the socket
 * are skipped: their fair rate applies to their own flows only, and children get their share by
 * weight.
 */
static __always_inline struct allowance lookup_allowance(struct socket_state *known, __u32 direction, __u32 rtt_us)
{
	struct allowance lower = {.rate = UNLIMITED};
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
		__u64 rate = state->fair_rate;

		/* 0: a state that was cleared meanwhile, and not prepared for the next limit. */
		if (!skip && rate && rate < lower.rate) {
			lower.rate = rate;
			lower.ahead_ns = config->mark_ns;
			lower.upper = config->rate;
			lower.index = index;
		}
	}
	return lower;
}

#endif
