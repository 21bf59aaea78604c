/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Verdict of one scope. */
#ifndef WEIR_LIMIT_VERDICT_H
#define WEIR_LIMIT_VERDICT_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#include "fair.h"
#include "fair_share.h"
#include "maps.h"
#include "packet.h"
#include "queue.h"
#include "stall.h"

#define CERTAIN 0xffff /* probability 1 */
#define LOOPBACK 1       /* interface index of lo in every namespace */

/* A packet's precedence in a scope. */
enum precedence {
	OWN,        /* traffic of the scope itself */
	EXCESS,     /* of a child above its minimum: marks begin at the drop threshold, since the rate of the child follows the scope */
	GUARANTEED, /* of a child below its minimum: dropped only above the ceiling, so that others yield */
};

/* A packet's charge to one scope. */
struct charge {
	__s64 cost;            /* ns charged */
	__u32 index;           /* of the scope and direction in every map */
	__u32 parent;          /* scope + 1 above it; 0 for none */
	__u32 wire;            /* octets */
	__u16 chance;          /* probability of a mark, of CERTAIN */
	__u16 overhead;        /* bytes of link overhead per wire packet */
	__u8 charged;          /* the scope was charged */
	__u8 slack;            /* the scope is far below its limit: a socket may prepay */
	__u8 shadow;           /* the scope only counts */
	__u8 child_precedence; /* in: enum precedence given by a child */
	__u8 precedence;       /* enum precedence given by this scope, for its parent */
	__u8 dropped_before;   /* in: a shadow scope would have dropped the packet */
	__u8 would_drop;       /* this shadow scope would have dropped it */
	__u8 interval_over;    /* the scope's interval is over (fair.h) */
};

/* In the order of a packet's scopes. */
struct charges {
	struct charge of[LIMIT_SCOPES_PER_SOCKET];
};

/*
 * Returns the mark probability, of CERTAIN, for a queue of above ns over the threshold; span is the
 * distance to certain marking.
 */
static __always_inline __u16 chance(__s64 above, __s64 span)
{
	if (above <= 0)
		return 0;
	return above < span ? (__u64)above * CERTAIN / span : CERTAIN;
}

/* Reports whether a scope limits the packet. */
static __always_inline __u32 applies(const struct __sk_buff *skb, const struct limit_config *config)
{
	return config->flags & LIMIT_ENFORCED && (skb->ifindex != LOOPBACK || config->flags & LIMIT_LOOPBACK);
}

/*
 * Reports whether a scope is so far below its limit that a socket may prepay this packet and
 * another.
 */
static __always_inline __u32 has_slack(const struct limit_config *config, const struct limit_state *state, __u64 wire, __s64 queue)
{
	return config->quota >= 2 * wire && 2 * queue <= -(__s64)config->burst_ns && state->fair_rate >= config->max_fair_rate;
}

/* Returns the local TCP sender of an egress packet; 0 for none. */
static __always_inline struct bpf_sock *sender_of(struct __sk_buff *skb, const struct packet *p, __u32 direction)
{
	struct bpf_sock *sk = skb->sk;

	return direction == LIMIT_EGRESS && p->protocol == IPPROTO_TCP && sk ? bpf_sk_fullsock(sk) : 0;
}

/*
 * Reports whether the TCP sender has nothing else in flight. TCP repeats a rejected SYN after half
 * a second, without ECN, and gives up after ten.
 */
static __always_inline __u32 idle(struct __sk_buff *skb, const struct packet *p, __u32 direction)
{
	struct bpf_sock *sk = sender_of(skb, p, direction);
	struct bpf_tcp_sock *tcp = sk ? bpf_tcp_sock(sk) : 0;

	return tcp && (tcp->packets_out == 0 || sk->state == BPF_TCP_SYN_SENT);
}

/* Reports whether dropping the packet would make its sender wait for a timer. */
static __always_inline __u32 would_stall(struct __sk_buff *skb, const struct packet *p, __u32 index,
					 const struct limit_config *config)
{
	if ((index & 1) == LIMIT_EGRESS)
		return idle(skb, p, LIMIT_EGRESS);
	if (config->flags & LIMIT_CLASSIC)
		return 0;
	return prevents_stall(skb, p);
}

/*
 * Returns the RTT-scaled mark threshold: one RTT if that is longer than the mark threshold, up to
 * half-way to certain marking. After a pause a sender keeps its former pace until its first
 * acknowledgement, and a cwnd reduced for that takes many RTTs to recover.
 */
static __always_inline __s64 rtt_scaled_threshold(struct __sk_buff *skb, const struct packet *p, __u32 direction, __s64 mark, __s64 full)
{
	struct bpf_sock *sk = sender_of(skb, p, direction);
	struct bpf_tcp_sock *tcp = sk ? bpf_tcp_sock(sk) : 0;
	__s64 rtt = tcp ? (__s64)(tcp->srtt_us >> 3) * 1000 : 0, upper = (mark + full) >> 1;

	if (rtt < mark)
		return mark;
	return rtt < upper ? rtt : upper;
}

/* Returns the virtual queue above which a packet is dropped. */
static __always_inline __s64 threshold_of(const struct terms *terms, const struct charge *charge, __u32 large)
{
	return (large ? terms->large_ns : terms->drop_ns) + (charge->child_precedence == EXCESS ? terms->drop_ns : 0);
}

/*
 * Charges the packet to one scope. Returns 0 if the scope drops it. A global function, verified
 * once and not per path through the scopes before.
 */
__attribute__((noinline)) int charge_scope(struct __sk_buff *skb, const struct packet *p, struct charge *charge)
{
	if (!p || !charge)
		return 1;
	__u32 index = charge->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);
	struct limit_fair_share *share = bpf_map_lookup_elem(&limit_shares, &index);

	if (!config || !state || !count || !share || !applies(skb, config))
		return 1;
	if (charge->dropped_before && config->flags & LIMIT_SHADOW)
		return 1;
	__u64 wire = wire_bytes(p, skb->len, config->overhead);
	struct terms terms = terms_of(config, share);
	__s64 cost = wire * terms.cost >> LIMIT_COST_SHIFT;
	__u32 large = wire > tuned.small_octets;
	__s64 limit = threshold_of(&terms, charge, large), full = threshold_of(&terms, charge, 1);
	__s64 ceiling = charge->child_precedence == GUARANTEED ? terms.ceiling_ns : limit;
	__s64 queue = admit(state, terms.burst_ns, p->now, cost, ceiling, count);

	/* A drop would make the sender wait 200 ms; the ceiling bounds many such senders. */
	if (queue > ceiling && would_stall(skb, p, index, config)) {
		ceiling = terms.ceiling_ns;
		queue = admit(state, terms.burst_ns, p->now, cost, ceiling, count);
	}

	/* Two super-packets of other senders are not congestion. */
	if (charge->child_precedence == EXCESS && queue - cost > (terms.drop_ns >> 1) + 2 * (__s64)(state->interval_largest * terms.cost >> LIMIT_COST_SHIFT))
		share->congested = 1;
	charge->interval_over = measure(state, interval_length(state, share, &terms), p->now, wire, p->protocol == IPPROTO_TCP ? wire : 0,
			     queue - cost);
	count->queue[bucket(queue) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	if (queue > ceiling) {
		count->dropped++;
		charge->would_drop = !!(config->flags & LIMIT_SHADOW);
		return charge->would_drop;
	}
	if (queue > limit)
		count->forced++;
	if (config->weight) {
		__u32 covered = charge->child_precedence == GUARANTEED;

		charge->parent = parent_of(index >> 1);
		if (config->min)
			covered = charge_guaranteed(share, config, &terms, p->now, wire * config->min_cost >> LIMIT_COST_SHIFT, covered);
		charge->precedence = covered ? GUARANTEED : EXCESS;
	}
	__s64 mark = charge->child_precedence == EXCESS ? terms.drop_ns : terms.mark_ns;

	if (queue > mark)
		mark = rtt_scaled_threshold(skb, p, index & 1, mark, full);
	/* Everything that decide_action() needs, to avoid a second lookup. */
	charge->chance = charge->child_precedence == GUARANTEED ? 0 : chance(queue - mark, full - mark);
	charge->shadow = !!(config->flags & LIMIT_SHADOW);
	/* The use of a parent is measured per packet. */
	charge->slack = charge->child_precedence == OWN && has_slack(config, state, wire, queue);
	charge->overhead = config->overhead;
	charge->cost = cost;
	charge->wire = wire;
	charge->charged = 1;
	return 1;
}

enum action { NOTHING, MARK, REDUCE };

/*
 * Counts an admitted packet and returns the action of the scope, drawn with the mark probability.
 */
static __always_inline int decide_action(const struct packet *p, const struct charge *charge)
{
	__u32 index = charge->index;
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

	if (!count)
		return NOTHING;
	count_admitted(count, p, charge->wire);
	if (!charge->chance || bpf_get_prandom_u32() % CERTAIN >= charge->chance)
		return NOTHING;
	if (p->ecn) {
		count->marked++;
		return charge->shadow ? NOTHING : MARK;
	}
	if (p->protocol != IPPROTO_TCP || (index & 1) == LIMIT_INGRESS)
		return NOTHING;
	count->reduced++;
	return charge->shadow ? NOTHING : REDUCE;
}

/* Refunds the charge of a packet that another scope has dropped. */
static __always_inline void refund(const struct charge *charge)
{
	__u32 index = charge->index;
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	if (state)
		__sync_fetch_and_add(&state->finish_ns, -charge->cost);
}

#endif
