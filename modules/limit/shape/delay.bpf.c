//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits by delay. Every packet that leaves a device is charged to the virtual queues (GCRA) of its
 * lines, four at most: of the device, of its scopes, and of their parents. Each gives it a
 * departure time, behind those before it or within its flow's fair part (flow.h), and the latest
 * counts:
 *
 *   delay 0        mark                early                     horizon
 *   |   at once    |  CE, or notified  |  CE, or dropped by chance  |  dropped; small packets
 *   |              |  (TCP of here)    |  (received, forwarded)     |  have a quarter more
 *
 * TCP that is received or forwarded, and whose flow has a queue of its own for longer than a burst
 * does, is dropped by chance from half of early on.
 *
 * TCP senders of this host are paced, and those to its sockets held by their receive windows
 * (pacing.h), so that theirs hardly wait.
 *
 * The packet waits in the device's qdisc: in fq until its time stamp, which may be below a class of
 * a link (class/links), or in an HTB class at the same rate, whose queue is then as long as the
 * virtual one. What is received goes by way of an ifb of Weir's, whose egress this is:
 *
 *   wire -> device, ingress: delay_receive -> ifb, egress: delay_charge -> qdisc -> device's stack
 *   stack -> delay_notify (cgroup_skb) -> device, egress: delay_charge -> qdisc -> wire
 *   stack -> delay_arrive (cgroup_skb) -> socket
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/departs.h"
#include "../../../bpf/upper_layer.h"
#include "../queue.h"
#include "flow.h"
#include "own.h"
#include "pacing.h"

char delay_license[] SEC("license") = "Dual BSD/GPL";

/* Used here, so that BTF has the type. */
const volatile enum delay_format delay_formats = DELAY_UNIT_SHIFT;

#define NEXT TC_ACT_UNSPEC /* the programs of others */
#define BURST_NS 100000000LL /* in which a burst has passed: CoDel's interval (RFC 8289) */
#define RAMP_SHIFT 30 /* 2^n ns, in which the chance of a standing queue's drops rises: senders answer within a round trip */
#define RAMP_PRECISION 10 /* in steps of 2^n ns */
#define CONGESTED 3 /* cgroup_skb: pass, and tell the sender (NET_XMIT_CN) */

/* A packet, and what its lines make of it. */
struct delay_packet {
	__s64 now;
	__s64 until; /* departure time: the latest of its lines' */
	struct delay_notice notice;
	__u32 hash; /* of its flow */
	__u32 wire; /* octets */
	__u32 told; /* 1 marked, 2 cannot be marked, 0 not tried */
	__u32 stamp; /* whether it is to have a departure time */
	__u32 paced; /* whether its sender is */
	__u32 tcp; /* 1 TCP, 2 another protocol, 0 not looked at */
	__u32 fair_rate; /* octet/s that its lines let it have, the least of theirs, and the key of that line */
	__u32 fair_line;
};

/* Whether something happens that has a chance for each ns, at most one in four. */
static __always_inline int by_chance(__s64 ns, __u64 slope)
{
	__u64 chance = (__u64)ns * slope, most = 1ULL << (DELAY_CHANCE_SHIFT - 2);

	return ns > 0 && bpf_get_prandom_u32() < (chance < most ? chance : most) >> (DELAY_CHANCE_SHIFT - 32);
}

/* The protocol behind extension headers; 0 where only another fragment tells it. */
static __always_inline __u32 protocol_behind(struct __sk_buff *skb, __u8 next)
{
	struct upper_layer upper = upper_layer_of(next);

	upper_layer_walk(skb, &upper, UPPER_NETWORK);
	return upper.later ? 0 : upper.protocol;
}

/* The protocol of a packet, and its ECN bits; 0 for what is neither IPv4 nor IPv6. */
static __always_inline __u32 protocol_of(struct __sk_buff *skb, __u32 *ecn)
{
	__u8 head[10];

	if (skb->protocol == bpf_htons(ETH_P_IP) && !bpf_skb_load_bytes_relative(skb, 0, head, 10, BPF_HDR_START_NET)) {
		*ecn = head[1] & 3;
		return head[9];
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6) && !bpf_skb_load_bytes_relative(skb, 0, head, 8, BPF_HDR_START_NET)) {
		*ecn = head[1] >> 4 & 3;
		return extension_is(head[6]) ? protocol_behind(skb, head[6]) : head[6];
	}
	return 0;
}

static __always_inline int is_tcp(struct __sk_buff *skb, struct delay_packet *p)
{
	__u32 ecn;

	if (!p->tcp)
		p->tcp = protocol_of(skb, &ecn) == IPPROTO_TCP ? 1 : 2;
	return p->tcp == 1;
}

/*
 * Notes since when a flow has a queue: from one packet to the next something of its own waits.
 * Others' packets keep it waiting too, which a drop of its own does not make shorter.
 */
static __always_inline void note_standing(struct delay_flow *flow, const struct delay_packet *p, const struct delay_config *line, __s64 wait)
{
	if (wait < (__s64)line->standing_ns || flow->departs_ns <= p->now)
		flow->stands_ns = 0;
	else if (!flow->stands_ns)
		flow->stands_ns = p->now;
}

/*
 * Whether a packet that cannot be marked is dropped before the horizon. The queue of TCP that
 * lasts is one that a drop makes shorter; of other protocols that is not known.
 */
static __always_inline int is_early(struct __sk_buff *skb, struct delay_packet *p, const struct delay_config *line,
				    const struct delay_flow *flow, __s64 wait)
{
	__s64 stands = flow->stands_ns ? p->now - flow->stands_ns - BURST_NS : 0;

	if (p->wire <= line->small_octets)
		return 0;
	if (stands <= 0 || flow->used_ns >= DELAY_HELD || !is_tcp(skb, p))
		return by_chance(wait - line->early_ns, line->early_slope);
	stands = stands < 1LL << RAMP_SHIFT ? stands : 1LL << RAMP_SHIFT;
	return by_chance(wait - line->standing_ns, line->notify_slope * (stands >> RAMP_PRECISION) >> (RAMP_SHIFT - RAMP_PRECISION));
}

/* Tells the sender of a packet that waits; 0 if the packet is to be dropped. */
static __always_inline int signal(struct __sk_buff *skb, struct delay_packet *p, __u32 key, const struct delay_config *line,
				  const struct delay_flow *flow, __s64 wait, struct delay_counters *count)
{
	if (wait <= (__s64)line->mark_ns)
		return 1;
	if (!p->told)
		p->told = bpf_skb_ecn_set_ce(skb) > 0 ? 1 : 2;
	if (p->told == 1) {
		count->passed.marked++;
		return 1;
	}
	/* A socket of this host waits for its buffer, and TCP is notified. */
	if (!(line->flags & DELAY_RECEIVED) && skb->sk) {
		if (wait - (__s64)line->mark_ns > p->notice.from_ns - p->now)
			p->notice = (struct delay_notice){p->now + wait - (__s64)line->mark_ns, key};
		return 1;
	}
	if (!is_early(skb, p, line, flow, wait))
		return 1;
	count->early++;
	return 0;
}

static __always_inline __u64 cost_of(const struct delay_config *line, __u32 wire)
{
	return wire * line->cost >> LIMIT_COST_SHIFT;
}

/* Whether a flow is one whose sender is paced here, or held by its receiver here. */
static __always_inline __u32 is_paced(struct __sk_buff *skb, struct delay_packet *p, const struct delay_config *line,
				      const struct delay_flow *flow)
{
	if (!(line->flags & DELAY_RECEIVED))
		return p->paced;
	return flow->used_ns >= DELAY_HELD && is_tcp(skb, p);
}

/*
 * Charges a packet to a line, for the child whose parent it is, if it is one; 0 if it is to be
 * dropped. Global: verified once.
 */
__attribute__((noinline)) int delay_line(struct __sk_buff *skb, struct delay_packet *p, __u32 key, __u32 child)
{
	struct delay_config *line = bpf_map_lookup_elem(&delay_configs, &key), *part = line;
	struct delay_state *state = bpf_map_lookup_elem(&delay_states, &key);
	struct delay_counters *count = bpf_map_lookup_elem(&delay_counts, &key);
	__u32 unit_of = 1 << DELAY_UNIT_SHIFT, weight = 1, paced;
	__s64 cost, unit, floor, own, queue, start, most;
	struct delay_slots slots;
	struct delay_flow *flow;

	if (!p || !line || !state || !count)
		return 1;
	if (child) {
		part = bpf_map_lookup_elem(&delay_configs, &child);
		if (part) {
			unit_of = part->unit;
			weight = part->weight;
		}
	}
	flow = delay_flow_of(child, p->hash, key);
	if (!flow)
		return 1;
	paced = !child && is_paced(skb, p, line, flow);
	delay_recount(state, line, p->now);
	cost = cost_of(line, p->wire);
	unit = (__u64)cost * unit_of >> DELAY_UNIT_SHIFT;
	floor = p->now - line->burst_ns;
	queue = state->finish_ns > floor ? state->finish_ns : floor;
	own = flow->finish_ns > p->now ? flow->finish_ns : p->now;
	slots = (struct delay_slots){p->now, line->slot_shift, paced};
	start = line->flags & DELAY_STAMP && own < queue ? delay_in_order(flow, delay_ahead(state, &slots, own, queue)) : queue;
	start = start < queue ? start : queue;
	if (start > own && start < queue && p->wire <= line->small_octets && flow->departs_ns <= p->now)
		start = delay_ahead_small(state, &slots, own, start, cost);
	most = line->horizon_ns + (p->wire <= line->small_octets ? line->reserve_ns : 0);
	if (start - p->now > most) {
		count->passed.refused++;
		return 0;
	}
	if (!child) /* a child's queue is of many flows */
		note_standing(flow, p, line, start - p->now);
	if (!signal(skb, p, key, line, flow, start - p->now, count))
		return 0;

	if (paced)
		delay_use_paced(state, flow, cost, start - p->now);
	else
		delay_use(state, flow, unit, weight);
	queue = delay_book(&state->finish_ns, floor, cost, count);
	if (start < queue && line->flags & DELAY_STAMP) {
		delay_take(state, &slots, start, cost);
		count->ahead++;
	}
	start = start < queue ? start : queue;
	/* What the line had room for is no debt. */
	own += unit * (state->flows ?: ONE_FLOW) >> DELAY_FLOWS_SHIFT;
	most = queue + cost + (__s64)(line->interval_ns >> DEBT_SHIFT);
	flow->finish_ns = own < most ? own : most;
	flow->departs_ns = start;

	if (!child && !(line->flags & DELAY_RECEIVED) && state->fair_rate < p->fair_rate) {
		p->fair_rate = state->fair_rate;
		p->fair_line = key;
	}

	count->passed.queue[bucket(start - p->now) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	count->passed.packets++;
	count->passed.segments += skb->gso_segs ?: 1;
	count->passed.bytes += p->wire;
	count->delayed += start > p->now;
	p->until = start > p->until ? start : p->until;
	p->stamp |= line->flags;
	return 1;
}

/* Gives back what a line was charged for a packet that another one drops. */
__attribute__((noinline)) int delay_refund(struct __sk_buff *skb, struct delay_packet *p, __u32 key)
{
	struct delay_config *line = bpf_map_lookup_elem(&delay_configs, &key);
	struct delay_state *state = bpf_map_lookup_elem(&delay_states, &key);
	struct delay_counters *count = bpf_map_lookup_elem(&delay_counts, &key);

	if (!p || !line || !state || !count)
		return 0;
	__sync_fetch_and_add(&state->finish_ns, -(__s64)cost_of(line, p->wire));
	count->passed.packets--;
	count->passed.segments -= skb->gso_segs ?: 1;
	count->passed.bytes -= p->wire;
	return 0;
}

static __always_inline struct delay_notice *notice_of(__u32 hash)
{
	__u32 at = hash * HASH_RATIO >> 18 & (DELAY_FLOWS - 1);

	return bpf_map_lookup_elem(&delay_notices, &at);
}

/* Keeps what a TCP sender of this host is to be told with its next packets. */
static __always_inline void keep(struct __sk_buff *skb, const struct delay_packet *p)
{
	__u32 ecn = 0;
	struct delay_notice *notice;

	if (protocol_of(skb, &ecn) != IPPROTO_TCP || ecn)
		return;
	notice = notice_of(p->hash);
	if (notice)
		*notice = p->notice;
}

SEC("tc")
int delay_charge(struct __sk_buff *skb)
{
	struct delay_lines all = {};
	struct delay_packet p = {.fair_rate = UNLIMITED};
	struct delay_socket *sender;

	if (!delay_find(skb, &all)) {
		if (skb->tstamp)
			delay_bound(skb, bpf_ktime_get_ns());
		if (skb->tc_index == DEPARTS) /* of a device before */
			skb->tc_index = 0;
		return NEXT;
	}
	p.now = bpf_ktime_get_ns();
	p.hash = bpf_get_hash_recalc(skb);
	p.wire = skb->wire_len;
	sender = delay_socket_of(skb);
	p.paced = sender && sender->paced.read.value;
	for (int i = 0; i < DELAY_LINES_OF_PACKET; i++) {
		if (i >= all.count || delay_line(skb, &p, all.key[i], all.child[i]))
			continue;
		for (int j = 0; j < i; j++)
			delay_refund(skb, &p, all.key[j & (DELAY_LINES_OF_PACKET - 1)]);
		return TC_ACT_SHOT;
	}
	if (sender && p.fair_line) {
		sender->line = p.fair_line;
		sender->charged_ns = p.now;
	}
	if (p.notice.from_ns)
		keep(skb, &p);
	if (p.stamp & DELAY_STAMP && !(p.stamp & DELAY_RECEIVED))
		skb->tc_index = DEPARTS;
	/* A packet that is neither IPv4 nor IPv6 has no departure time, and goes at once. */
	if (p.until > p.now && p.stamp & DELAY_STAMP && (p.stamp & DELAY_RECEIVED || (__s64)skb->tstamp < p.until))
		bpf_skb_set_tstamp(skb, p.until, MONOTONIC);
	else
		delay_bound(skb, p.until > p.now ? p.until : p.now);
	return NEXT;
}

SEC("tc")
int delay_receive(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, *ifb = bpf_map_lookup_elem(&delay_receivers, &device);

	return ifb ? bpf_redirect(*ifb, 0) : NEXT;
}

/* Notifies TCP senders that do not heed marks, by what their last packet had to wait. */
SEC("cgroup_skb/egress")
int delay_notify(struct __sk_buff *skb)
{
	struct delay_notice *notice = notice_of(skb->hash);
	struct delay_config *line = 0;
	struct delay_counters *count;
	__u32 ecn = 0, key;
	__s64 wait;

	if (!notice || !notice->from_ns || !skb->hash || skb->len <= 128)
		return PASS;
	wait = notice->from_ns - (__s64)bpf_ktime_get_ns();
	key = notice->line;
	if (wait > 0)
		line = bpf_map_lookup_elem(&delay_configs, &key);
	if (!line || !by_chance(wait, line->notify_slope) || protocol_of(skb, &ecn) != IPPROTO_TCP || ecn)
		return PASS;
	count = bpf_map_lookup_elem(&delay_counts, &key);
	if (count)
		count->passed.reduced++;
	return CONGESTED;
}
