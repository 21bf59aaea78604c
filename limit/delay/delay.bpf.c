//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits a device by delay. Every packet that leaves it is charged to a virtual queue at the
 * limit's rate (GCRA, ../queue.h), and departs when those before it have had their time:
 *
 *   delay 0        mark                early                     horizon
 *   |   at once    |  CE, or notified  |  CE, or dropped by chance  |  dropped; small packets
 *   |              |  (TCP of here)    |  (received, forwarded)     |  have a quarter more
 *
 * The packet waits in the device's qdisc: in fq until its time stamp, or in an HTB class at the
 * same rate, whose queue is then as long as the virtual one. What is received goes by way of an ifb
 * of Weir's, whose egress this is:
 *
 *   wire -> device, ingress: delay_receive -> ifb, egress: delay_charge -> qdisc -> device's stack
 *   stack -> delay_notify (cgroup_skb) -> device, egress: delay_charge -> qdisc -> wire
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../queue.h"
#include "delay.h"

char delay_license[] SEC("license") = "Dual BSD/GPL";

#define NEXT TC_ACT_UNSPEC /* the programs of others */
#define PASS 1
#define CONGESTED 3 /* cgroup_skb: pass, and tell the sender (NET_XMIT_CN) */
#define MONOTONIC 1 /* BPF_SKB_CLOCK_MONOTONIC */

#define DELAY_LINES 1024

/* Limits in force. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DELAY_LINES);
	__type(key, __u32);
	__type(value, struct delay_config);
} delay_configs SEC(".maps");

/* Virtual queues, of which finish_ns alone is used. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DELAY_LINES);
	__type(key, __u32);
	__type(value, struct limit_state);
} delay_states SEC(".maps");

/* What was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, DELAY_LINES);
	__type(key, __u32);
	__type(value, struct delay_counters);
} delay_counts SEC(".maps");

/* Index of a device that receives to that of its ifb. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DELAY_LINES);
	__type(key, __u32);
	__type(value, __u32);
} delay_receivers SEC(".maps");

/* Cookie of the network namespace that the indices are of; 0 where programs may not ask for one. */
const volatile __u64 delay_netns = 0;

/* Whether something happens that has a chance for each ns, at most one in four. */
static __always_inline int by_chance(__s64 ns, __u64 slope)
{
	__u64 chance = (__u64)ns * slope, most = 1ULL << (DELAY_CHANCE_SHIFT - 2);

	return ns > 0 && bpf_get_prandom_u32() < (chance < most ? chance : most) >> (DELAY_CHANCE_SHIFT - 32);
}

/* Tells the sender; 0 if the packet is to be dropped. */
static __always_inline int signal(struct __sk_buff *skb, const struct delay_config *line, __s64 wait,
				  struct delay_counters *count)
{
	if (wait <= (__s64)line->mark_ns)
		return 1;
	if (bpf_skb_ecn_set_ce(skb) > 0) {
		count->passed.marked++;
		return 1;
	}
	/* A socket of this host waits for its buffer, and TCP is notified. */
	if (skb->wire_len <= line->small_octets || (!(line->flags & DELAY_RECEIVED) && skb->sk))
		return 1;
	if (!by_chance(wait - line->early_ns, line->early_slope))
		return 1;
	count->early++;
	return 0;
}

SEC("tc")
int delay_charge(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, wire = skb->wire_len;
	struct delay_config *line = bpf_map_lookup_elem(&delay_configs, &device);
	struct limit_state *state = bpf_map_lookup_elem(&delay_states, &device);
	struct delay_counters *count = bpf_map_lookup_elem(&delay_counts, &device);
	__s64 now = bpf_ktime_get_ns(), cost, wait, most;

	if (!line || !state || !count)
		return NEXT;
	cost = wire * line->cost >> LIMIT_COST_SHIFT;
	most = line->horizon_ns + (wire <= line->small_octets ? line->reserve_ns : 0);
	/* Its own time is no delay: at low rates a super-packet takes longer than the horizon. */
	wait = admit(state, line->burst_ns, now, cost, most + cost, &count->passed) - cost;
	if (wait > most) {
		count->passed.refused++;
		return TC_ACT_SHOT;
	}
	count->passed.queue[bucket(wait) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	if (!signal(skb, line, wait, count)) {
		__sync_fetch_and_add(&state->finish_ns, -cost);
		return TC_ACT_SHOT;
	}
	count->passed.packets++;
	count->passed.segments += skb->gso_segs ?: 1;
	count->passed.bytes += wire;
	if (wait <= 0)
		return NEXT;
	count->delayed++;
	/* A packet that is neither IPv4 nor IPv6 has no departure time, and goes at once. */
	if (line->flags & DELAY_STAMP && ((line->flags & DELAY_RECEIVED) || (__s64)skb->tstamp < now + wait))
		bpf_skb_set_tstamp(skb, now + wait, MONOTONIC);
	return NEXT;
}

SEC("tc")
int delay_receive(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, *ifb = bpf_map_lookup_elem(&delay_receivers, &device);

	return ifb ? bpf_redirect(*ifb, 0) : NEXT;
}

/* Whether a packet is of TCP that does not heed marks, with a payload. */
static __always_inline int wants_notice(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		return !bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) && ip.protocol == IPPROTO_TCP && !(ip.tos & 3);
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		return !bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) && ip.nexthdr == IPPROTO_TCP && !(ip.flow_lbl[0] & 0x30);
	}
	return 0;
}

SEC("cgroup_skb/egress")
int delay_notify(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex;
	struct delay_config *line = bpf_map_lookup_elem(&delay_configs, &device);
	struct limit_state *state = bpf_map_lookup_elem(&delay_states, &device);
	struct delay_counters *count = bpf_map_lookup_elem(&delay_counts, &device);

	if (!line || !state || !count || skb->len <= line->small_octets || (delay_netns && bpf_get_netns_cookie(skb) != delay_netns))
		return PASS;
	if (!by_chance(state->finish_ns - (__s64)bpf_ktime_get_ns() - (__s64)line->mark_ns, line->notify_slope) || !wants_notice(skb))
		return PASS;
	count->passed.reduced++;
	return CONGESTED;
}
