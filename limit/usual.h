/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What nearly every packet meets: scopes whose queues end before marks begin, outside a tree. Nothing is done to it then but to
 * charge and count it, and no scope takes its charge back, so that all are charged at once.
 */
#ifndef WEIR_LIMIT_USUAL_H
#define WEIR_LIMIT_USUAL_H

#include "verdict.h"

/* What charge_usual returns, beside a bit for each scope whose window is over (fair.h). */
#define CHARGED (1 << LIMIT_SCOPES_PER_SOCKET)

/* A scope that was asked. */
struct asked {
	struct limit_config *config; /* 0 where it does not limit the packet */
	struct limit_state *state;
};

/* What a scope charges for so many octets, ns. */
static __always_inline __s64 cost_of(__u64 wire, const struct limit_config *config)
{
	return wire * config->cost >> LIMIT_COST_SHIFT;
}

/* Looks at a scope without doing anything; 0 where this is no usual case. */
static __always_inline __u32 ask(struct __sk_buff *skb, const struct packet *p, __u32 index, struct asked *asked)
{
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	asked->config = 0;
	if (!config || !state || config->weight)
		return 0;
	if (!applies(skb, config))
		return 1;
	__s64 old = *(volatile __s64 *)&state->finish_ns, floor = p->now - config->burst_ns;

	asked->config = config;
	asked->state = state;
	return ends_after(old, floor, cost_of(wire_bytes(p, skb->len, config->overhead), config)) <= p->now + (__s64)config->mark_ns;
}

/*
 * Charges a scope that was asked, and counts the packet. Where another processor is quicker, its charge comes on top, so
 * that the queue may be longer by then than marks allow, by a packet of each.
 */
static __always_inline __u32 accept(struct __sk_buff *skb, const struct packet *p, __u32 index, const struct asked *asked,
				    struct share *share)
{
	struct limit_config *config = asked->config;
	struct limit_state *state = asked->state;
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
	share->taken = 1;
	share->shadow = !!(config->flags & LIMIT_SHADOW);
	if (is_far(index, config, state, config->rate, config->burst_ns, wire, queue)) {
		share->far = 1;
		share->index = index;
		share->overhead = config->overhead;
		share->wire = wire;
	}
	/* Where children have it wait longer, close_window() does nothing. */
	return measure(state, at_least(state->interval_ns, config->mark_ns), p->now, wire, p->protocol == IPPROTO_TCP ? wire : 0,
		       queue - cost);
}

/*
 * Charges a packet to the scopes of a list whose bit is set in which, the direction above them, if each is a usual case; 0, and
 * nothing is done, if one is not. Global like take().
 */
__attribute__((noinline)) int charge_usual(struct __sk_buff *skb, const struct packet *p, struct shares *shares, __u64 list,
					   __u32 which)
{
	struct asked asked[LIMIT_SCOPES_PER_SOCKET];
	__u32 result = CHARGED, direction = which >> LIMIT_SCOPES_PER_SOCKET;

	if (!p || !shares)
		return 0;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		asked[i].config = 0;
		if (i < count_of(list) && which & 1 << i && !ask(skb, p, scope_of(list, i) * 2 + direction, &asked[i]))
			return 0;
	}
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (asked[i].config)
			result |= accept(skb, p, scope_of(list, i) * 2 + direction, &asked[i], &shares->of[i]) << i;
	return result;
}

#endif
