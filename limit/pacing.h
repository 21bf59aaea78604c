/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Explicit-rate pacing of TCP sockets, and a congestion window that fits it. */
#ifndef WEIR_LIMIT_PACING_H
#define WEIR_LIMIT_PACING_H

#include "fair_share.h"

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define UNLIMITED 0xffffffffu
#define SOL_TCP 6
#define UNBOUND 0x7fffffffu

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

/*
 * Whether a socket's option is worth reading: what it should be has changed by 1.6 %, or it is
 * every 16th callback, so that what the application sets meanwhile is seen. Reading takes longer
 * than all else in a callback.
 */
static __always_inline __u32 worth_reading(struct sampled_read *seen, __u64 value)
{
	__u32 before = seen->value, now = value < UNLIMITED ? value : UNLIMITED, shift = tuned.pace_change_shift;

	if (before && now - before + (before >> shift) <= before >> (shift - 1) && ++seen->since < tuned.reread_callbacks)
		return 0;
	seen->value = now;
	seen->since = 0;
	return 1;
}

/* Paces the socket at the fair rate, or at the application's own rate where that is lower. */
static __always_inline void pace(struct bpf_sock_ops *ops, struct socket_state *known, __u64 rate)
{
	__u32 current = UNLIMITED, shift = tuned.pace_change_shift;

	if (!worth_reading(&known->pace_read, rate))
		return;
	if (bpf_getsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)))
		return;
	if (!known->pace || current != known->pace)
		known->own_rate = current;
	if (rate > known->own_rate)
		rate = known->own_rate;
	if (current != UNLIMITED && rate < current + (current >> shift) && rate + (current >> shift) > current)
		return;
	__u32 value = rate;

	if (value != current && !bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)))
		known->pace = value;
}

/*
 * Bounds the congestion window to two round trips and a mark threshold at the fair rate. Pacing
 * keeps the rate without it, but TCP sends up to half its cwnd as one super-packet, and on short
 * paths up to 64 KiB whatever the pace: 52 ms at 10 Mbit/s, beyond every threshold.
 *
 * The least cwnd is for delayed acknowledgements. A flow that may send less than a segment in a
 * mark threshold has one of three segments, which it sends one by one: there are so many such flows
 * that pairs, should they meet, fill the queue.
 *
 * Setting the bound also sets the slow-start threshold, so it is touched only where it binds: a
 * cwnd that another bottleneck keeps below the bound grows as if there were none. A cwnd that is
 * twice the bound all the same, of a socket that was open before or whose reduction was undone,
 * takes the threshold when its next reduction ends.
 */
static __always_inline void bound_cwnd(struct bpf_sock_ops *ops, struct socket_state *known, struct allowance allowed)
{
	__u32 value = UNBOUND, bound = known->cwnd ? known->cwnd : UNBOUND;
	__u32 shift = tuned.cwnd_change_shift;
	__u64 mss = ops->mss_cache;

	if (allowed.rate < UNLIMITED && mss) {
		__u64 ahead_us = 2 * (__u64)(ops->srtt_us >> 3) + allowed.ahead_ns / 1000;
		__u64 segments = allowed.rate * ahead_us / 1000000 / mss;
		__u32 least = allowed.rate * (allowed.ahead_ns / 1000) < (__u64)mss * 1000000 ? tuned.cwnd_slow : tuned.cwnd_least;

		value = segments < least ? least : segments < UNBOUND ? segments : UNBOUND;
	}
	if (value + (value >> shift) >= bound && value <= bound + (bound >> shift) && ops->snd_cwnd <= 2 * value)
		return;
	if (ops->snd_cwnd <= value && ops->snd_cwnd < bound)
		return;
	if (!bpf_setsockopt(ops, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &value, sizeof(value)))
		known->cwnd = value;
	/*
	 * Where no data was sent yet, the initial window keeps the bound too; elsewhere the kernel
	 * rejects this.
	 */
	if (ops->op != BPF_SOCK_OPS_RTT_CB && ops->snd_cwnd > value)
		bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW, &value, sizeof(value));
}

#endif
