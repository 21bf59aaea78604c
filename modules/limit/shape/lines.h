/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps, and the lines that a packet is charged to. */
#ifndef WEIR_DELAY_LINES_H
#define WEIR_DELAY_LINES_H

#include "../../../bpf/match_packet.h"
#include "delay.h"

#define DELAY_SCOPE (1U << 31) /* keys of scopes, two each, by direction; devices have no such index */

/* Limits in force. Maps of lines have room for those of the policy (grow.go). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_config);
} delay_configs SEC(".maps");

/* Virtual queues. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_state);
} delay_states SEC(".maps");

/* What was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_counters);
} delay_counts SEC(".maps");

/* Virtual queues of flows, by a hash of flow and line. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DELAY_FLOWS);
	__type(key, __u32);
	__type(value, struct delay_flow);
} delay_flows SEC(".maps");

/* What TCP senders without ECN are to be told, by a hash of their flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DELAY_FLOWS);
	__type(key, __u32);
	__type(value, struct delay_notice);
} delay_notices SEC(".maps");

/* Index of a device that receives to that of its ifb. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} delay_receivers SEC(".maps");

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_settings);
} delay_current SEC(".maps");

/* What a packet is charged to. */
struct delay_lines {
	__u32 count; /* of those found, which may be more than there is room for */
	__u32 key[DELAY_LINES_OF_PACKET];
	__u32 child[DELAY_LINES_OF_PACKET]; /* key of the line whose parent it is, the first that was found; 0 without one */
};

static __always_inline void delay_add(struct delay_lines *all, __u32 key, __u32 child)
{
	for (int i = 0; i < DELAY_LINES_OF_PACKET; i++)
		if (i < all->count && all->key[i] == key) {
			all->child[i] = all->child[i] ?: child;
			return;
		}
	if (all->count < DELAY_LINES_OF_PACKET) {
		all->key[all->count & (DELAY_LINES_OF_PACKET - 1)] = key;
		all->child[all->count & (DELAY_LINES_OF_PACKET - 1)] = child;
	}
	all->count++;
}

/* The addresses that a packet goes to and comes from; 0 if it is neither IPv4 nor IPv6. */
static __always_inline int delay_ends(struct __sk_buff *skb, struct match_prefix *to, struct match_prefix *from)
{
	__u32 ends[8];

	to->length = from->length = 128;
	if (skb->protocol == bpf_htons(ETH_P_IP) && !bpf_skb_load_bytes_relative(skb, 12, ends, 8, BPF_HDR_START_NET)) {
		to->address[2] = from->address[2] = bpf_htonl(0xffff);
		from->address[3] = ends[0];
		to->address[3] = ends[1];
		return 1;
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || bpf_skb_load_bytes_relative(skb, 8, ends, 32, BPF_HDR_START_NET))
		return 0;
	__builtin_memcpy(from->address, ends, 16);
	__builtin_memcpy(to->address, ends + 4, 16);
	return 1;
}

/* Adds the scopes of a packet. Where one without a socket comes from tells it too. */
static __always_inline void delay_match(struct __sk_buff *skb, __u32 kinds, struct delay_lines *all)
{
	struct match_prefix to = {}, from = {};
	struct match_scopes found = {};

	match_own(skb, kinds, &found);
	if (delay_ends(skb, &to, &from)) {
		match_path(skb, &to, kinds, &found);
		if (!skb->sk)
			match_path(skb, &from, kinds & MATCH_PREFIXES, &found);
	}
	for (int i = 0; i < MATCH_SCOPES; i++)
		if (i < found.count)
			delay_add(all, DELAY_SCOPE | found.scope[i] << 1 | LIMIT_EGRESS, 0);
}

/*
 * Finds the lines of a packet: of its scopes, of the device, and their parents. Global, to be
 * verified once.
 */
__attribute__((noinline)) int delay_find(struct __sk_buff *skb, struct delay_lines *all)
{
	__u32 zero = 0, device = skb->ifindex;
	struct delay_settings *settings = bpf_map_lookup_elem(&delay_current, &zero);
	struct delay_config *here = bpf_map_lookup_elem(&delay_configs, &device);

	if (!all)
		return 0;
	if (settings && settings->kinds && !(here && here->flags & DELAY_RECEIVED)) /* scopes send */
		delay_match(skb, settings->kinds, all);
	if (here)
		delay_add(all, here->rate ? device : here->parent, 0);
	for (int i = 0; i < DELAY_LINES_OF_PACKET; i++) {
		__u32 key = all->key[i];
		struct delay_config *line = i < all->count ? bpf_map_lookup_elem(&delay_configs, &key) : 0;

		if (line && line->parent)
			delay_add(all, line->parent, key);
	}
	return all->count;
}

#endif
