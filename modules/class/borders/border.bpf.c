//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A border is a device between two networks with different code points (DSCP, RFC 2474).
 *
 *   ingress   marked with the class of the longest matching prefix of source or destination;
 *             otherwise translated from the other network's DSCP to this network's
 *   egress    translated in the opposite direction
 *
 * All other packets, and the two ECN bits, stay unchanged. The programs are the nearest to the
 * wire, so that all other programs of this host see this network's code points. IPv4 and IPv6, with
 * VLAN tags in the packet or in its metadata; fragments and packets with options are matched by
 * their addresses too. A wrong IPv4 checksum stays wrong by the same difference.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "border.h"
#include "../header.h"

char border_license[] SEC("license") = "Dual BSD/GPL";

#define MAX_TAGS 2
#define LOOPBACK 1 /* ifindex: not a border, and the device of BPF test runs */

const volatile struct border_settings border_config;

/* Source or destination prefix to class, longest match; sized at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct border_prefix);
	__type(value, struct border_rule);
} border_rules SEC(".maps");

/* Direction to counters. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BORDER_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct border_counts);
} border_counters SEC(".maps");

/* Returns the offset of the IP header and sets its version; -1 without one. */
static __always_inline int find_ip_header(struct __sk_buff *skb, __u32 *version)
{
	__u32 at = ETH_HLEN;
	__be16 type;

	*version = 0;
	if (!border_config.header)
		return 0;
#pragma unroll
	for (int i = 0; i <= MAX_TAGS; i++, at += 4) {
		if (bpf_skb_load_bytes(skb, at - sizeof(type), &type, sizeof(type)))
			return -1;
		switch (type) {
		case bpf_htons(ETH_P_IP):
			*version = BORDER_IPV4;
			return at;
		case bpf_htons(ETH_P_IPV6):
			*version = BORDER_IPV6;
			return at;
		case bpf_htons(ETH_P_8021Q):
		case bpf_htons(ETH_P_8021AD):
			continue;
		}
		return -1;
	}
	return -1;
}

/* Parses a packet and returns the offset of its IP header; -1 if it is not IP. */
static __always_inline int parse_packet(struct __sk_buff *skb, struct packet *p)
{
	__u32 version;
	int at = find_ip_header(skb, &version);

	if (at < 0 || bpf_skb_load_bytes(skb, at, &p->ip, 20))
		return -1;
	if (version && p->ip.octet[0] >> 4 != version)
		return -1;
	return parse_ip(skb, p, at, BPF_HDR_START_MAC) ? at : -1;
}

static __always_inline const struct border_rule *lookup_prefix(const struct packet *p, enum border_side side)
{
	struct border_prefix key = {.side = side + p->version};
	const union header *ip = &p->ip;

	key.length = 32 + (p->version == BORDER_IPV4 ? 32 : 128);
	if (p->version == BORDER_IPV4) {
		key.address[0] = ip->word[side == BORDER_FROM ? 3 : 4];
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++)
			key.address[i] = ip->word[(side == BORDER_FROM ? 2 : 6) + i];
	}
	return bpf_map_lookup_elem(&border_rules, &key);
}

/* Returns the class of the longer prefix, the source's on a tie; BORDER_KEEP without one. */
static __always_inline __u32 lookup_class(const struct packet *p)
{
	const struct border_rule *from, *to;

	if (!border_config.rules)
		return BORDER_KEEP;
	from = lookup_prefix(p, BORDER_FROM);
	to = lookup_prefix(p, BORDER_TO);
	if (to && (!from || to->length > from->length))
		from = to;
	return from ? from->dscp : BORDER_KEEP;
}

static __always_inline void translate_packet(struct __sk_buff *skb, enum border_direction direction)
{
	__u32 key = direction, dscp, given;
	struct packet p = {};
	struct border_counts discarded = {}, *counts = bpf_map_lookup_elem(&border_counters, &key);
	int at = parse_packet(skb, &p);
	__u64 *counter;

	if (at < 0 || !counts)
		return;
	if (skb->ifindex == LOOPBACK)
		counts = &discarded;
	counts->packets++;
	counts->octets += p.octets;
	dscp = p.tos >> 2;
	given = border_config.translate[direction][dscp & (BORDER_DSCPS - 1)];
	counter = &counts->translated;
	if (direction == BORDER_IN) {
		__u32 class = lookup_class(&p);

		if (class < BORDER_DSCPS) {
			given = class;
			counter = &counts->marked;
		}
	}
	if (given >= BORDER_DSCPS || given == dscp)
		return;
	if (!border_config.shadow && write_tos_at(skb, &p, at, given << 2 | (p.tos & 3)))
		counter = &counts->failed;
	(*counter)++;
}

SEC("tc")
int border_in(struct __sk_buff *skb)
{
	translate_packet(skb, BORDER_IN);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int border_out(struct __sk_buff *skb)
{
	translate_packet(skb, BORDER_OUT);
	return TC_ACT_UNSPEC;
}
