/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fast path, which nearly every packet takes: scopes whose queues end before marks begin,
 * outside a tree. Nothing is done to it then but to charge and count it, and no scope refunds its
 * charge, so that all are charged at once.
 */
#ifndef WEIR_LIMIT_FAST_PATH_H
#define WEIR_LIMIT_FAST_PATH_H

#include "verdict.h"

/* What charge_fast_path returns, beside a bit for each scope whose interval is over (fair.h). */
#define CHARGED (1 << LIMIT_SCOPES_PER_SOCKET)

/* A scope that was found fit for the fast path. */
struct candidate {
	struct limit_config *config; /* 0 where it does not limit the packet */
	struct limit_state *state;
};

/* What a scope charges for so many octets, ns. */
static __always_inline __s64 cost_of(__u64 wire, const struct limit_config *config)
{
	return wire * config->cost >> LIMIT_COST_SHIFT;
}

/* Whether a scope is fit for it; nothing is changed. */
static __always_inline __u32 is_fast(struct __sk_buff *skb, const struct packet *p, __u32 index, struct candidate *candidate)
{
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	candidate->config = 0;
	if (!config || !state || config->weight)
		return 0;
	if (!applies(skb, config))
		return 1;
	__s64 old = *(volatile __s64 *)&state->finish_ns, floor = p->now - config->burst_ns;

	candidate->config = config;
	candidate->state = state;
	return ends_after(old, floor, cost_of(wire_bytes(p, skb->len, config->overhead), config)) <= p->now + (__s64)config->mark_ns;
}

/*
 * Charges a scope that is fit, and counts the packet. Where another processor is quicker, its
 * charge comes on top, so that the queue may be longer by then than marks allow, by a packet of
 * each.
 */
static __always_inline __u32 charge_fast(struct __sk_buff *skb, const struct packet *p, __u32 index, const struct candidate *candidate,
				    struct charge *charge)
{
	struct limit_config *config = candidate->config;
	struct limit_state *state = candidate->state;
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);
	__s64 old = *(volatile __s64 *)&state->finish_ns, floor = p->now - config->burst_ns;
	__u64 wire = wire_bytes(p, skb->len, config->overhead);
	__s64 cost = cost_of(wire, config), finish = ends_after(old, floor, cost), queue = finish - p->now;

	if (!count)
		return 0;
	if (__sync_val_compare_and_swap(&state->finish_ns, old, finish) != old) {
		__sync_fetch_and_add(&state->finish_ns, cost);
		count->retries++;
	}
	count_admitted(count, p, wire);
	count->queue[bucket(queue) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	charge->charged = 1;
	charge->shadow = !!(config->flags & LIMIT_SHADOW);
	if (has_slack(config, state, wire, queue)) {
		charge->slack = 1;
		charge->index = index;
		charge->overhead = config->overhead;
		charge->wire = wire;
	}
	/* Where children have it wait longer, end_interval() does nothing. */
	return measure(state, at_least(state->interval_least_ns, config->mark_ns), p->now, wire, p->protocol == IPPROTO_TCP ? wire : 0,
		       queue - cost);
}

/*
 * Charges a packet to the scopes of a list whose bit is set in which, the direction above them, if
 * each is fit; 0, and nothing is done, if one is not. Global like charge_scope().
 */
__attribute__((noinline)) int charge_fast_path(struct __sk_buff *skb, const struct packet *p, struct charges *charges, __u64 list,
					   __u32 which)
{
	struct candidate candidate[LIMIT_SCOPES_PER_SOCKET];
	__u32 result = CHARGED, direction = which >> LIMIT_SCOPES_PER_SOCKET;

	if (!p || !charges)
		return 0;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		candidate[i].config = 0;
		if (i < count_of(list) && which & 1 << i && !is_fast(skb, p, scope_of(list, i) * 2 + direction, &candidate[i]))
			return 0;
	}
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (candidate[i].config)
			result |= charge_fast(skb, p, scope_of(list, i) * 2 + direction, &candidate[i], &charges->of[i]) << i;
	return result;
}

#endif
