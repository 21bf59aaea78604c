/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps, and the lookup of a packet's shapers. */
#ifndef WEIR_SHAPE_LOOKUP_H
#define WEIR_SHAPE_LOOKUP_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/match_packet.h"
#include "shaper.h"

#define SHAPER_SCOPE (1U << 31) /* set in the keys of scopes; device indices stay below */

/* Shaper key to its configuration. capacity.go sizes the per-shaper maps for the policy. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shaper_config);
} delay_configs SEC(".maps");

/* Shaper key to its virtual queue and flow count. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shaper_state);
} delay_states SEC(".maps");

/* Shaper key to its counters. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shaper_counters);
} delay_counts SEC(".maps");

/* Hash of flow and shaper key to the flow's virtual queue. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHAPER_FLOWS);
	__type(key, __u32);
	__type(value, struct shaper_flow);
} delay_flows SEC(".maps");

/* Flow hash to the pending notification of a local TCP sender without ECN. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHAPER_FLOWS);
	__type(key, __u32);
	__type(value, struct shaper_notice);
} delay_notices SEC(".maps");

/* Index of a device that is shaped at ingress to the index of its ifb. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} delay_receivers SEC(".maps");

/* Global settings, one entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shaper_settings);
} delay_current SEC(".maps");

/* The shapers of one packet. */
struct shaper_list {
	__u32 count; /* shapers found; may exceed SHAPERS_PER_PACKET */
	__u32 key[SHAPERS_PER_PACKET];
	__u32 child[SHAPERS_PER_PACKET]; /* key of the first child found that has key[i] as its parent; 0: none */
};

static __always_inline void add_shaper(struct shaper_list *all, __u32 key, __u32 child)
{
	for (int i = 0; i < SHAPERS_PER_PACKET; i++)
		if (i < all->count && all->key[i] == key) {
			all->child[i] = all->child[i] ?: child;
			return;
		}
	if (all->count < SHAPERS_PER_PACKET) {
		all->key[all->count & (SHAPERS_PER_PACKET - 1)] = key;
		all->child[all->count & (SHAPERS_PER_PACKET - 1)] = child;
	}
	all->count++;
}

/* Reads destination and source address; returns 0 for neither IPv4 nor IPv6. */
static __always_inline int parse_addresses(struct __sk_buff *skb, struct match_prefix *to, struct match_prefix *from)
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

/* Adds the packet's scopes. A forwarded packet (no socket) also matches by its source prefix. */
static __always_inline void lookup_scopes(struct __sk_buff *skb, __u32 kinds, struct shaper_list *all)
{
	struct match_prefix to = {}, from = {};
	struct match_scopes found = {};

	match_own(skb, kinds, &found);
	if (parse_addresses(skb, &to, &from)) {
		match_path(skb, &to, kinds, &found);
		if (!skb->sk)
			match_path(skb, &from, kinds & MATCH_PREFIXES, &found);
	}
	for (int i = 0; i < MATCH_SCOPES; i++)
		if (i < found.count)
			add_shaper(all, SHAPER_SCOPE | found.scope[i] << 1 | LIMIT_EGRESS, 0);
}

/*
 * Collects the shapers of a packet's scopes and device, then their parents; returns their number.
 * A global function, so that the verifier checks it once.
 */
__attribute__((noinline)) int lookup_shapers(struct __sk_buff *skb, struct shaper_list *all)
{
	__u32 zero = 0, device = skb->ifindex;
	struct shaper_settings *settings = bpf_map_lookup_elem(&delay_current, &zero);
	struct shaper_config *here = bpf_map_lookup_elem(&delay_configs, &device);

	if (!all)
		return 0;
	if (settings && settings->kinds && !(here && here->flags & SHAPER_RECEIVED)) /* scopes shape egress only */
		lookup_scopes(skb, settings->kinds, all);
	if (here)
		add_shaper(all, here->rate ? device : here->parent, 0);
	for (int i = 0; i < SHAPERS_PER_PACKET; i++) {
		__u32 key = all->key[i];
		struct shaper_config *shaper = i < all->count ? bpf_map_lookup_elem(&delay_configs, &key) : 0;

		if (shaper && shaper->parent)
			add_shaper(all, shaper->parent, key);
	}
	return all->count;
}

#endif
