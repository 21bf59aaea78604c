//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two networks that do not know the same code points (DSCP, RFC 2474) meet at a device:
 *
 *   comes in    translated: what the network beyond calls one class has this one's DSCP
 *               marked: the class of the longest prefix of its source or destination, if any
 *   leaves      translated the other way
 *
 * All other packets, and ECN's two bits of all, stay as they are. The programs are the ones nearest
 * to the wire, so that everything on this host sees this network's code points alone. IPv4 and
 * IPv6, behind VLAN tags in the packet or beside it; fragments and packets with options are told by
 * their addresses as all others. An IPv4 header whose checksum was wrong stays wrong by as much.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "border.h"
#include "../header.h"

char border_license[] SEC("license") = "Dual BSD/GPL";

#define MOST_TAGS 2
#define LOOPBACK 1 /* its index: no border, and the device of packets of a test run */

const volatile struct border_settings border_told;

/* Prefix of either side to its class, longest match; its size is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct border_prefix);
	__type(value, struct border_rule);
} border_rules SEC(".maps");

/* Direction to what was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BORDER_DIRECTIONS);
	__type(key, __u32);
	__type(value, struct border_counts);
} border_counters SEC(".maps");

/* Where the IP header begins and of which version it is; -1 where there is none. */
static __always_inline int locate(struct __sk_buff *skb, __u32 *version)
{
	__u32 at = ETH_HLEN;
	__be16 type;

	*version = 0;
	if (!border_told.header)
		return 0;
#pragma unroll
	for (int i = 0; i <= MOST_TAGS; i++, at += 4) {
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

/* Reads a packet; its header's place, or -1 for what is not IP. */
static __always_inline int read(struct __sk_buff *skb, struct packet *p)
{
	__u32 version;
	int at = locate(skb, &version);

	if (at < 0 || bpf_skb_load_bytes(skb, at, &p->ip, 20))
		return -1;
	if (version && p->ip.octet[0] >> 4 != version)
		return -1;
	return parse(skb, p, at, BPF_HDR_START_MAC) ? at : -1;
}

static __always_inline const struct border_rule *look_up(const struct packet *p, enum border_side side)
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

/* The class of the longer prefix, the source's of two as long; BORDER_KEEP without one. */
static __always_inline __u32 class_of(const struct packet *p)
{
	const struct border_rule *from, *to;

	if (!border_told.rules)
		return BORDER_KEEP;
	from = look_up(p, BORDER_FROM);
	to = look_up(p, BORDER_TO);
	if (to && (!from || to->length > from->length))
		from = to;
	return from ? from->dscp : BORDER_KEEP;
}

static __always_inline void pass(struct __sk_buff *skb, enum border_direction direction)
{
	__u32 key = direction, dscp, given;
	struct packet p = {};
	struct border_counts nobody = {}, *counts = bpf_map_lookup_elem(&border_counters, &key);
	int at = read(skb, &p);
	__u64 *counter;

	if (at < 0 || !counts)
		return;
	if (skb->ifindex == LOOPBACK)
		counts = &nobody;
	counts->packets++;
	counts->octets += p.octets;
	dscp = p.tos >> 2;
	given = border_told.translate[direction][dscp & (BORDER_DSCPS - 1)];
	counter = &counts->translated;
	if (direction == BORDER_IN) {
		__u32 class = class_of(&p);

		if (class < BORDER_DSCPS) {
			given = class;
			counter = &counts->marked;
		}
	}
	if (given >= BORDER_DSCPS || given == dscp)
		return;
	if (!border_told.shadow && write_at(skb, &p, at, given << 2 | (p.tos & 3)))
		counter = &counts->failed;
	(*counter)++;
}

SEC("tc")
int border_in(struct __sk_buff *skb)
{
	pass(skb, BORDER_IN);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int border_out(struct __sk_buff *skb)
{
	pass(skb, BORDER_OUT);
	return TC_ACT_UNSPEC;
}
