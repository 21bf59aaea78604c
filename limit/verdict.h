/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What one scope does to a packet. */
#ifndef WEIR_LIMIT_VERDICT_H
#define WEIR_LIMIT_VERDICT_H

#include "fair.h"
#include "maps.h"
#include "packet.h"
#include "queue.h"

#define SMALL_PACKET 128 /* wire octets: SYN, ACK, control */
#define LOOPBACK 1       /* ifindex of lo in every namespace */

/* One scope's part in a packet. */
struct share {
	__s64 cost;  /* ns charged */
	__s64 queue; /* ns, this packet included */
	__u64 wire;  /* octets */
	__u32 index; /* of the scope and direction in every map */
	__u32 taken; /* the packet was charged */
};

/*
 * Charges the packet to one scope. Returns 0 if the scope refuses it. Global, like find_scopes, so that it is verified
 * once and not for every path through the scopes before.
 */
__attribute__((noinline)) int take(struct __sk_buff *skb, const struct packet *p, struct share *share)
{
	if (!p || !share)
		return 1;
	__u32 index = share->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

	if (!config || !state || !count || !(config->flags & LIMIT_ENFORCED))
		return 1;
	if (skb->ifindex == LOOPBACK && !(config->flags & LIMIT_LOOPBACK))
		return 1;
	__u64 wire = wire_bytes(p, skb->len, config->overhead);
	__s64 cost = wire * config->cost >> LIMIT_COST_SHIFT;
	__s64 limit = config->drop_ns - (wire > SMALL_PACKET ? config->reserve_ns : 0);
	/* A sender with nothing in flight would sit out its probe timer, 200 ms; the ceiling bounds many such senders. */
	__s64 ceiling = p->idle ? 4 * (__s64)config->drop_ns : limit;
	__s64 queue = charge(state, config, p->now, cost, ceiling, count);

	if (!(config->flags & LIMIT_CLASSIC))
		update_rate(state, config, p->now, wire, queue - cost);
	count->queue[bucket(queue) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	if (queue > ceiling) {
		count->refused++;
		return config->flags & LIMIT_SHADOW ? 1 : 0;
	}
	if (queue > limit)
		count->forced++;
	share->cost = cost;
	share->queue = queue;
	share->wire = wire;
	share->taken = 1;
	return 1;
}

enum wish { NOTHING, MARK, REDUCE };

/* Counts an admitted packet and returns what the scope wants done to it: something more likely the longer its queue. */
__attribute__((noinline)) int settle(const struct packet *p, const struct share *share)
{
	if (!p || !share)
		return NOTHING;
	__u32 index = share->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

	if (!config || !count)
		return NOTHING;
	__s64 above = share->queue - (__s64)config->mark_ns;
	__u64 span = config->drop_ns - config->reserve_ns;

	count->packets++;
	count->segments += p->segments;
	count->bytes += share->wire;
	span = span > config->mark_ns ? span - config->mark_ns : 1;
	if (above <= 0 || bpf_get_prandom_u32() % span >= (__u64)above)
		return NOTHING;
	if (p->ecn) {
		count->marked++;
		return config->flags & LIMIT_SHADOW ? NOTHING : MARK;
	}
	if (p->protocol != IPPROTO_TCP || (index & 1) == LIMIT_INGRESS)
		return NOTHING;
	count->reduced++;
	return config->flags & LIMIT_SHADOW ? NOTHING : REDUCE;
}

/* Gives back what was charged for a packet that another scope has refused. */
static __always_inline void give_back(const struct share *share)
{
	__u32 index = share->index;
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	if (state)
		__sync_fetch_and_add(&state->finish_ns, -share->cost);
}

#endif
