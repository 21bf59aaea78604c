//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shaping by departure times (EDT). Each packet that leaves a device is charged to up to four
 * shapers: the device's, those of its scopes, and their parents. A shaper is a virtual queue (GCRA)
 * with fair queueing (fair_queue.h), and it gives the packet a departure time; the latest of them
 * wins. By its delay the packet then is:
 *
 *   0            mark_ns              early_ns               horizon_ns   horizon_ns + reserve_ns
 *   |------------|--------------------|----------------------|------------|-----------> delay
 *   | sent       | CE, or local TCP   | CE, or dropped at    | only small | dropped
 *   |            | sender notified    | random if remote     | packets    |
 *
 * Remote TCP flows with a standing queue of more than BURST_NS are dropped at random from half of
 * early_ns on. Local TCP senders are paced and local TCP receivers set their window (pacing.h), so
 * that their packets rarely wait.
 *
 * The packet waits in the device's qdisc: in fq until its timestamp, possibly below a link-sharing
 * class, or in an HTB class of the same rate, with a queue as long as the virtual one.
 * Received packets are shaped at the egress of an ifb:
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
#include "../../../bpf/ecn.h"
#include "../../../bpf/jumbo.h"
#include "../../../bpf/upper_layer.h"
#include "../police/queue.h"
#include "fair_queue.h"
#include "lookup.h"
#include "pacing.h"
#include "shaper.h"
#include "txtime.h"

char delay_license[] SEC("license") = "Dual BSD/GPL";

/* Keeps the enum in BTF for bpf2go. */
const volatile enum shaper_format shaper_formats = SHAPER_UNIT_SHIFT;

#define NEXT TC_ACT_UNSPEC /* continue with the next program */
#define BURST_NS 100000000LL /* ns; a queue that lasts longer is standing (CoDel's interval, RFC 8289) */
#define RAMP_SHIFT 30 /* 2^n ns in which a standing queue's drop probability rises, since senders need an RTT to react */
#define RAMP_PRECISION 10 /* 2^n ns; step of that rise */
#define VLAN_TAG 4 /* bytes */
#define CONGESTED 3 /* cgroup_skb: pass, and report congestion to the sender (NET_XMIT_CN) */

enum ecn_result { ECN_UNTRIED, ECN_MARKED, ECN_NOT_CAPABLE };
enum tcp_result { TCP_UNKNOWN, TCP_YES, TCP_NO };

/* A packet and the combined decision of its shapers. */
struct shaped_packet {
	__s64 now;      /* ns, CLOCK_MONOTONIC */
	__s64 until;    /* ns, CLOCK_MONOTONIC: departure time, the latest of all shapers */
	struct shaper_notice notice;
	__u32 hash;     /* flow hash */
	__u32 wire;     /* bytes on the wire */
	__u32 ecn;      /* enum ecn_result */
	__u32 flags;    /* enum shaper_flags of all shapers, or-ed */
	__u32 paced;    /* boolean: the local sender is paced */
	__u32 tcp;      /* enum tcp_result */
	__u32 fair_rate; /* bytes/s: lowest fair rate of its shapers */
	__u32 fair_shaper; /* key of the shaper with that rate; 0: none */
};

/* Returns 1 with probability ns * slope / 2^SHAPER_CHANCE_SHIFT, at most 1/4. */
static __always_inline int decide_at_random(__s64 ns, __u64 slope)
{
	__u64 chance = (__u64)ns * slope, max = 1ULL << (SHAPER_CHANCE_SHIFT - 2);

	return ns > 0 && bpf_get_prandom_u32() < (chance < max ? chance : max) >> (SHAPER_CHANCE_SHIFT - 32);
}

/* Returns the protocol after the extension headers; 0 for a fragment without it. */
static __always_inline __u32 lookup_upper_layer(struct __sk_buff *skb, __u8 next)
{
	struct upper_layer upper = upper_layer_of(next);

	upper_layer_walk(skb, &upper, UPPER_NETWORK);
	return upper.later ? 0 : upper.protocol;
}

/* Returns the upper-layer protocol and reads the ECN bits; 0 for neither IPv4 nor IPv6. */
static __always_inline __u32 lookup_protocol(struct __sk_buff *skb, __u32 *ecn)
{
	__u8 head[10];

	if (skb->protocol == bpf_htons(ETH_P_IP) && !bpf_skb_load_bytes_relative(skb, 0, head, 10, BPF_HDR_START_NET)) {
		*ecn = head[1] & 3;
		return head[9];
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6) && !bpf_skb_load_bytes_relative(skb, 0, head, 8, BPF_HDR_START_NET)) {
		*ecn = head[1] >> 4 & 3;
		return extension_is(head[6]) ? lookup_upper_layer(skb, head[6]) : head[6];
	}
	return 0;
}

static __always_inline int is_tcp(struct __sk_buff *skb, struct shaped_packet *p)
{
	__u32 ecn;

	if (p->tcp == TCP_UNKNOWN)
		p->tcp = lookup_protocol(skb, &ecn) == IPPROTO_TCP ? TCP_YES : TCP_NO;
	return p->tcp == TCP_YES;
}

/*
 * Tracks since when the flow has a standing queue of its own packets. A wait for other flows'
 * packets does not count: a drop would not shorten it.
 */
static __always_inline void update_standing(struct shaper_flow *flow, const struct shaped_packet *p, const struct shaper_config *shaper, __s64 wait)
{
	if (wait < (__s64)shaper->standing_ns || flow->departure_ns <= p->now)
		flow->standing_since_ns = 0;
	else if (!flow->standing_since_ns)
		flow->standing_since_ns = p->now;
}

/*
 * Decides at random whether to drop a non-ECT packet before the horizon. A standing queue lowers
 * the threshold for TCP only, which is known to react to a drop.
 */
static __always_inline int is_early_drop(struct __sk_buff *skb, struct shaped_packet *p, const struct shaper_config *shaper,
					 const struct shaper_flow *flow, __s64 wait)
{
	__s64 standing = flow->standing_since_ns ? p->now - flow->standing_since_ns - BURST_NS : 0;

	if (p->wire <= shaper->small_bytes)
		return 0;
	if (standing <= 0 || flow->used_ns >= LOCAL_AGING || !is_tcp(skb, p))
		return decide_at_random(wait - shaper->early_ns, shaper->early_slope);
	standing = standing < 1LL << RAMP_SHIFT ? standing : 1LL << RAMP_SHIFT;
	return decide_at_random(wait - shaper->standing_ns, shaper->notify_slope * (standing >> RAMP_PRECISION) >> (RAMP_SHIFT - RAMP_PRECISION));
}

/* Marks a delayed packet CE, schedules a notification, or returns 0 to drop the packet. */
static __always_inline int signal_congestion(struct __sk_buff *skb, struct shaped_packet *p, __u32 key, const struct shaper_config *shaper,
					     const struct shaper_flow *flow, __s64 wait, struct shaper_counters *count)
{
	if (wait <= (__s64)shaper->mark_ns)
		return 1;
	if (p->ecn == ECN_UNTRIED)
		p->ecn = ecn_mark(skb) ? ECN_MARKED : ECN_NOT_CAPABLE;
	if (p->ecn == ECN_MARKED) {
		count->passed.marked++;
		return 1;
	}
	/* No early drop for a local socket: its send buffer throttles it, and TCP is notified. */
	if (!(shaper->flags & SHAPER_RECEIVED) && skb->sk) {
		if (wait - (__s64)shaper->mark_ns > p->notice.from_ns - p->now)
			p->notice = (struct shaper_notice){p->now + wait - (__s64)shaper->mark_ns, key};
		return 1;
	}
	if (!is_early_drop(skb, p, shaper, flow, wait))
		return 1;
	count->early++;
	return 0;
}

static __always_inline __u64 cost_of(const struct shaper_config *shaper, __u32 wire)
{
	return wire * shaper->cost >> LIMIT_COST_SHIFT;
}

/* Reports whether the packet's flow is paced (shaper.h). */
static __always_inline __u32 is_paced(struct __sk_buff *skb, struct shaped_packet *p, const struct shaper_config *shaper,
				      const struct shaper_flow *flow)
{
	if (!(shaper->flags & SHAPER_RECEIVED))
		return p->paced;
	return flow->used_ns >= LOCAL_AGING && is_tcp(skb, p);
}

/*
 * Charges a packet to a shaper, with the weight of a child (key 0: none); returns 0 to drop it. A
 * global function, so that the verifier checks it once.
 */
__attribute__((noinline)) int charge_shaper(struct __sk_buff *skb, struct shaped_packet *p, __u32 key, __u32 child)
{
	struct shaper_config *shaper = bpf_map_lookup_elem(&delay_configs, &key), *below = shaper;
	struct shaper_state *state = bpf_map_lookup_elem(&delay_states, &key);
	struct shaper_counters *count = bpf_map_lookup_elem(&delay_counts, &key);
	__u32 unit_of = 1 << SHAPER_UNIT_SHIFT, weight = 1, paced;
	__s64 cost, unit, floor, own, queue, start, max;
	struct slot_set slots;
	struct shaper_flow *flow;

	if (!p || !shaper || !state || !count)
		return 1;
	if (child) {
		below = bpf_map_lookup_elem(&delay_configs, &child);
		if (below) {
			unit_of = below->unit;
			weight = below->weight;
		}
	}
	flow = lookup_flow(child, p->hash, key);
	if (!flow)
		return 1;
	paced = !child && is_paced(skb, p, shaper, flow);
	update_interval(state, shaper, p->now);
	cost = cost_of(shaper, p->wire);
	unit = (__u64)cost * unit_of >> SHAPER_UNIT_SHIFT;
	floor = p->now - shaper->burst_ns;
	queue = state->finish_ns > floor ? state->finish_ns : floor;
	own = flow->finish_ns > p->now ? flow->finish_ns : p->now;
	slots = (struct slot_set){p->now, shaper->slot_shift, paced};
	start = shaper->flags & SHAPER_STAMP && own < queue ? keep_order(flow, lookup_slot(state, &slots, own, queue)) : queue;
	start = start < queue ? start : queue;
	if (start > own && start < queue && p->wire <= shaper->small_bytes && flow->departure_ns <= p->now)
		start = lookup_small_slot(state, &slots, own, start, cost);
	max = shaper->horizon_ns + (p->wire <= shaper->small_bytes ? shaper->reserve_ns : 0);
	if (start - p->now > max) {
		count->passed.dropped++;
		return 0;
	}
	if (!child) /* a child's queue holds many flows */
		update_standing(flow, p, shaper, start - p->now);
	if (!signal_congestion(skb, p, key, shaper, flow, start - p->now, count))
		return 0;

	if (paced)
		count_paced_usage(state, flow, cost, start - p->now);
	else
		count_usage(state, flow, unit, weight);
	queue = append_to_queue(&state->finish_ns, floor, cost, count);
	if (start < queue && shaper->flags & SHAPER_STAMP) {
		occupy_slots(state, &slots, start, cost);
		count->ahead++;
	}
	start = start < queue ? start : queue;
	/* Bounds the flow's debt: usage of spare capacity is not counted against it. */
	own += unit * (state->flows ?: ONE_FLOW) >> SHAPER_FLOWS_SHIFT;
	max = queue + cost + (__s64)(shaper->interval_ns >> DEBT_SHIFT);
	flow->finish_ns = own < max ? own : max;
	flow->departure_ns = start;

	if (!child && !(shaper->flags & SHAPER_RECEIVED) && state->fair_rate < p->fair_rate) {
		p->fair_rate = state->fair_rate;
		p->fair_shaper = key;
	}

	count->passed.queue[bucket(start - p->now) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	count->passed.packets++;
	count->passed.segments += skb->gso_segs ?: 1;
	count->passed.bytes += p->wire;
	count->delayed += start > p->now;
	p->until = start > p->until ? start : p->until;
	p->flags |= shaper->flags;
	return 1;
}

/* Refunds the charge of a packet that another shaper drops. */
__attribute__((noinline)) int refund_shaper(struct __sk_buff *skb, struct shaped_packet *p, __u32 key)
{
	struct shaper_config *shaper = bpf_map_lookup_elem(&delay_configs, &key);
	struct shaper_state *state = bpf_map_lookup_elem(&delay_states, &key);
	struct shaper_counters *count = bpf_map_lookup_elem(&delay_counts, &key);

	if (!p || !shaper || !state || !count)
		return 0;
	__sync_fetch_and_add(&state->finish_ns, -(__s64)cost_of(shaper, p->wire));
	count->passed.packets--;
	count->passed.segments -= skb->gso_segs ?: 1;
	count->passed.bytes -= p->wire;
	return 0;
}

static __always_inline struct shaper_notice *lookup_notice(__u32 hash)
{
	__u32 at = hash * HASH_RATIO >> 18 & (SHAPER_FLOWS - 1);

	return bpf_map_lookup_elem(&delay_notices, &at);
}

/* Stores the notification of a local TCP sender without ECN for its next packets. */
static __always_inline void store_notice(struct __sk_buff *skb, const struct shaped_packet *p)
{
	__u32 ecn = 0;
	struct shaper_notice *notice;

	if (lookup_protocol(skb, &ecn) != IPPROTO_TCP || ecn)
		return;
	notice = lookup_notice(p->hash);
	if (notice)
		*notice = p->notice;
}

/*
 * Returns the bytes on the wire. The kernel keeps the outer VLAN tag beside the data of a frame. It
 * counts the header of BIG TCP in every segment.
 */
static __always_inline __u32 wire_length(struct __sk_buff *skb)
{
	__u32 segments = skb->gso_segs ?: 1;

	return skb->wire_len + (skb->vlan_present ? VLAN_TAG * segments : 0) - jumbo_header(skb) * segments;
}

SEC("tc")
int delay_charge(struct __sk_buff *skb)
{
	struct shaper_list all = {};
	struct shaped_packet p = {.fair_rate = UNLIMITED};
	struct shaped_socket *sender;

	if (!lookup_shapers(skb, &all)) {
		if (skb->tstamp)
			bound_txtime(skb, bpf_ktime_get_ns());
		if (skb->tc_index == DEPARTS) /* set at an upper device */
			skb->tc_index = 0;
		return NEXT;
	}
	p.now = bpf_ktime_get_ns();
	p.hash = bpf_get_hash_recalc(skb);
	p.wire = wire_length(skb);
	sender = lookup_socket(skb);
	p.paced = sender && sender->paced.read.value;
	for (int i = 0; i < SHAPERS_PER_PACKET; i++) {
		if (i >= all.count || charge_shaper(skb, &p, all.key[i], all.child[i]))
			continue;
		for (int j = 0; j < i; j++)
			refund_shaper(skb, &p, all.key[j & (SHAPERS_PER_PACKET - 1)]);
		return TC_ACT_SHOT;
	}
	if (sender && p.fair_shaper) {
		sender->shaper = p.fair_shaper;
		sender->charged_ns = p.now;
	}
	if (p.notice.from_ns)
		store_notice(skb, &p);
	if (p.flags & SHAPER_STAMP && !(p.flags & SHAPER_RECEIVED))
		skb->tc_index = DEPARTS;
	if (p.until > p.now && p.flags & SHAPER_STAMP && (p.flags & SHAPER_RECEIVED || (__s64)skb->tstamp < p.until)) {
		if (bpf_skb_set_tstamp(skb, p.until, MONOTONIC)) /* the helper accepts IP only, not tagged frames */
			skb->tstamp = p.until;
	} else {
		bound_txtime(skb, p.until > p.now ? p.until : p.now);
	}
	return NEXT;
}

SEC("tc")
int delay_receive(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, *ifb = bpf_map_lookup_elem(&delay_receivers, &device);

	return ifb ? bpf_redirect(*ifb, 0) : NEXT;
}

/* Notifies non-ECN TCP senders with a probability that follows the delay of their last packet. */
SEC("cgroup_skb/egress")
int delay_notify(struct __sk_buff *skb)
{
	struct shaper_notice *notice = lookup_notice(skb->hash);
	struct shaper_config *shaper = 0;
	struct shaper_counters *count;
	__u32 ecn = 0, key;
	__s64 wait;

	if (!notice || !notice->from_ns || !skb->hash || skb->len <= 128)
		return PASS;
	wait = notice->from_ns - (__s64)bpf_ktime_get_ns();
	key = notice->shaper;
	if (wait > 0)
		shaper = bpf_map_lookup_elem(&delay_configs, &key);
	if (!shaper || !decide_at_random(wait, shaper->notify_slope) || lookup_protocol(skb, &ecn) != IPPROTO_TCP || ecn)
		return PASS;
	count = bpf_map_lookup_elem(&delay_counts, &key);
	if (count)
		count->passed.reduced++;
	return CONGESTED;
}
