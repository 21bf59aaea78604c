/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fast path, which nearly every packet takes: all queues end below the mark threshold, and no
 * scope has a parent. No scope drops or marks the packet, so all are charged at once, without
 * refunds.
 */
#ifndef WEIR_LIMIT_FAST_PATH_H
#define WEIR_LIMIT_FAST_PATH_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#include "fair.h"
#include "maps.h"
#include "packet.h"
#include "queue.h"
#include "scopes.h"
#include "verdict.h"

/*
 * Flag in the result of charge_fast_path(), in addition to a bit per scope with a completed
 * interval (fair.h).
 */
#define CHARGED (1 << LIMIT_SCOPES_PER_SOCKET)

/* A scope that qualifies for the fast path. */
struct candidate {
	struct limit_config *config; /* 0 if it does not limit the packet */
	struct limit_state *state;
};

/* Returns the charge for a number of bytes in ns. */
static __always_inline __s64 cost_of(__u64 wire, const struct limit_config *config)
{
	return wire * config->cost >> LIMIT_COST_SHIFT;
}

/* Reports whether a scope qualifies, without side effects. */
static __always_inline __u32 fits_fast_path(struct __sk_buff *skb, const struct packet *p, __u32 index, struct candidate *candidate)
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
 * Charges a qualified scope and counts the packet. After a lost race with another CPU the charge is
 * added, so the queue may exceed the mark threshold by one packet per CPU.
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
	/* end_interval() checks for longer intervals of children. */
	return measure(state, at_least(state->min_interval_ns, config->mark_ns), p->now, wire, p->protocol == IPPROTO_TCP ? wire : 0,
		       queue - cost);
}

/*
 * If all scopes with a bit set in the mask `which` qualify, charges a packet to them. Otherwise
 * returns 0, without side effects. The mask's upper bits are the direction. A global function.
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
		if (i < count_of(list) && which & 1 << i && !fits_fast_path(skb, p, scope_of(list, i) * 2 + direction, &candidate[i]))
			return 0;
	}
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (candidate[i].config)
			result |= charge_fast(skb, p, scope_of(list, i) * 2 + direction, &candidate[i], &charges->of[i]) << i;
	return result;
}

#endif
