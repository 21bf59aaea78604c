/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What one scope does to a packet. */
#ifndef WEIR_LIMIT_VERDICT_H
#define WEIR_LIMIT_VERDICT_H

#include "fair.h"
#include "maps.h"
#include "packet.h"
#include "queue.h"
#include "stall.h"
#include "turn.h"

#define SMALL_PACKET 128 /* wire octets: SYN, ACK, control */
#define CERTAIN 0xffff /* a chance of one */
#define LOOPBACK 1       /* ifindex of lo in every namespace */

/* How a packet stands before a scope. */
enum standing {
	OWN,        /* traffic of the scope itself */
	GOVERNED,   /* of a child whose rate follows the scope's: marks begin at the drop threshold, or its flows would yield first */
	GUARANTEED, /* of a child below its minimum: it meets no threshold but the ceiling, and others give way */
};

/* One scope's part in a packet. */
struct share {
	__s64 cost;     /* ns charged */
	__u32 index;    /* of the scope and direction in every map */
	__u32 parent;   /* scope + 1 above it; 0 for none */
	__u32 wire;     /* octets */
	__u16 chance;   /* that the packet is marked, of CERTAIN */
	__u16 overhead; /* octets of link overhead per wire packet */
	__u8 taken;     /* the packet was charged */
	__u8 far;       /* from its limit, which lets a socket pay for this packet and another ahead */
	__u8 shadow;    /* the scope only counts */
	__u8 below;     /* in: enum standing that a child has given the packet */
	__u8 standing;  /* enum standing that this scope gives it before its parent */
	__u8 unseen;    /* in: a scope in shadow would have refused the packet, so this one would not have seen it */
	__u8 pretend;   /* would have been refused, were it not for shadow */
	__u8 due;       /* the scope's window is over (fair.h) */
};

/* A packet's scopes. */
struct shares {
	struct share of[LIMIT_SCOPES_PER_SOCKET];
};

/* Of CERTAIN, for a queue so far above where marks begin, of the span to where every packet is marked; both ns. */
static __always_inline __u16 chance(__s64 above, __s64 span)
{
	if (above <= 0)
		return 0;
	return above < span ? (__u64)above * CERTAIN / span : CERTAIN;
}

/* Whether a scope limits the packet at all. */
static __always_inline __u32 applies(const struct __sk_buff *skb, const struct limit_config *config)
{
	return config->flags & LIMIT_ENFORCED && (skb->ifindex != LOOPBACK || config->flags & LIMIT_LOOPBACK);
}

/* Whether a scope is far from its limit behind a packet and lets a socket pay for this one and another ahead. */
static __always_inline __u32 is_far(__u32 index, const struct limit_config *config, const struct limit_state *state, __u64 rate,
				    __s64 burst_ns, __u64 wire, __s64 queue)
{
	return config->batch >= 2 * wire && 2 * queue <= -burst_ns && state->fair_rate >= most_of(index, target_of(rate));
}

/* The socket of a TCP sender whose packet leaves. */
static __always_inline struct bpf_sock *sender_of(struct __sk_buff *skb, const struct packet *p, __u32 direction)
{
	struct bpf_sock *sk = skb->sk;

	return direction == LIMIT_EGRESS && p->protocol == IPPROTO_TCP && sk ? bpf_sk_fullsock(sk) : 0;
}

/*
 * Whether the packet's TCP sender has nothing else in flight. A connection request that is refused is sent again after half a
 * second, without ECN, and given up after ten.
 */
static __always_inline __u32 idle(struct __sk_buff *skb, const struct packet *p, __u32 direction)
{
	struct bpf_sock *sk = sender_of(skb, p, direction);
	struct bpf_tcp_sock *tcp = sk ? bpf_tcp_sock(sk) : 0;

	return tcp && (tcp->packets_out == 0 || sk->state == BPF_TCP_SYN_SENT);
}

/*
 * Whether the sender of a packet beyond the threshold would sit out a timer that is long against its pace, octet/s, or, which
 * is tried up to three thresholds, stops without a loss.
 */
static __always_inline __u32 would_stall(struct __sk_buff *skb, const struct packet *p, __u32 index,
					 const struct limit_config *config, __u64 pace, __u64 wire, __s64 queue)
{
	if ((index & 1) == LIMIT_EGRESS)
		return idle(skb, p, LIMIT_EGRESS) && (!pace || has_turn(skb, p, pace, wire));
	if (config->flags & LIMIT_CLASSIC)
		return 0;
	return spared(skb, p, queue < 3 * (__s64)config->drop_ns && !(config->flags & LIMIT_SHADOW));
}

/*
 * Where marks begin for a sender whose round trips are longer than the threshold: at one of them, half-way to where every
 * packet is marked at most. One that begins again after a pause has the pace of before until its first acknowledgement, and
 * a window reduced for that takes many round trips to come back.
 */
static __always_inline __s64 patient(struct __sk_buff *skb, const struct packet *p, __u32 direction, __s64 mark, __s64 full)
{
	struct bpf_sock *sk = sender_of(skb, p, direction);
	struct bpf_tcp_sock *tcp = sk ? bpf_tcp_sock(sk) : 0;
	__s64 trip = tcp ? (__s64)(tcp->srtt_us >> 3) * 1000 : 0, most = (mark + full) >> 1;

	if (trip < mark)
		return mark;
	return trip < most ? trip : most;
}

static __always_inline __s64 threshold_of(const struct terms *terms, const struct share *share)
{
	return share->below == GOVERNED ? 2 * terms->drop_ns : terms->drop_ns;
}

/*
 * Charges the packet to one scope. Returns 0 if the scope refuses it. Global, like find_rest, so that it is verified
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
	struct limit_sharing *sharing = bpf_map_lookup_elem(&limit_shares, &index);

	if (!config || !state || !count || !sharing || !applies(skb, config))
		return 1;
	if (share->unseen && config->flags & LIMIT_SHADOW)
		return 1;
	__u64 wire = wire_bytes(p, skb->len, config->overhead);
	struct terms terms = terms_of(config, sharing);
	__s64 cost = wire * terms.cost >> LIMIT_COST_SHIFT;
	__s64 limit = threshold_of(&terms, share) - (wire > SMALL_PACKET ? terms.reserve_ns : 0);
	__s64 ceiling = share->below == GUARANTEED ? CEILING * terms.drop_ns : limit;
	__s64 queue = charge(state, terms.burst_ns, p->now, cost, ceiling, count);
	/* Of a sender that this scope paces and whose data finds the queue full; 0 for other packets. */
	__u64 pace = queue > ceiling && wire > SMALL_PACKET && share->below == OWN && !(config->flags & LIMIT_CLASSIC) &&
		     sender_of(skb, p, index & 1) ? turn_rate(state, sharing, terms.rate) : 0;

	/* Its sender would sit out a timer, 200 ms; the ceiling bounds many such senders. */
	if (queue > ceiling && would_stall(skb, p, index, config, pace, wire, queue)) {
		ceiling = ceiling_of(&terms, pace);
		queue = charge(state, terms.burst_ns, p->now, cost, ceiling, count);
		if (queue <= ceiling && pace)
			take_turn(skb, p);
	}
	/* What a slow sender is refused it tries again and again; it is offered once. */
	__u64 offered = queue > ceiling && pace && slow(pace) ? 0 : wire;

	/* Two super-packets of other senders are no pressure yet. */
	if (share->below == GOVERNED && queue - cost > (terms.drop_ns >> 1) + 2 * (__s64)(state->window_largest * terms.cost >> LIMIT_COST_SHIFT))
		sharing->pressed = 1;
	share->due = measure(state, window_length(state, sharing, &terms), p->now, offered, p->protocol == IPPROTO_TCP ? wire : 0,
			     queue - cost);
	count->queue[bucket(queue) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	if (queue > ceiling) {
		count->refused++;
		share->pretend = !!(config->flags & LIMIT_SHADOW);
		return share->pretend;
	}
	if (queue > limit)
		count->forced++;
	if (config->weight) {
		__u32 covered = share->below == GUARANTEED;

		share->parent = parent_of(index >> 1);
		if (config->min)
			covered = guaranteed(sharing, config, &terms, p->now, wire * config->min_cost >> LIMIT_COST_SHIFT, covered);
		share->standing = covered ? GUARANTEED : GOVERNED;
	}
	__s64 mark = share->below == GOVERNED ? terms.drop_ns : terms.mark_ns, full = threshold_of(&terms, share) - terms.reserve_ns;

	if (queue > mark)
		mark = patient(skb, p, index & 1, mark, full);
	/* All that settle() needs, so that it does not look the scope up again. */
	share->chance = share->below == GUARANTEED ? 0 : chance(queue - mark, full - mark);
	share->shadow = !!(config->flags & LIMIT_SHADOW);
	/* What children use of a parent is measured packet by packet. */
	share->far = share->below == OWN && is_far(index, config, state, terms.rate, terms.burst_ns, wire, queue);
	share->overhead = config->overhead;
	share->cost = cost;
	share->wire = wire;
	share->taken = 1;
	return 1;
}

enum wish { NOTHING, MARK, REDUCE };

/* Counts an admitted packet and returns what the scope wants done to it: something more likely the longer its queue. */
static __always_inline int settle(const struct packet *p, const struct share *share)
{
	__u32 index = share->index;
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

	if (!count)
		return NOTHING;
	count_admitted(count, p, share->wire);
	if (!share->chance || bpf_get_prandom_u32() % CERTAIN >= share->chance)
		return NOTHING;
	if (p->ecn) {
		count->marked++;
		return share->shadow ? NOTHING : MARK;
	}
	if (p->protocol != IPPROTO_TCP || (index & 1) == LIMIT_INGRESS)
		return NOTHING;
	count->reduced++;
	return share->shadow ? NOTHING : REDUCE;
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
