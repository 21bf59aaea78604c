//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks packets that leave by a device with the differentiated services code point (DSCP, RFC 2474)
 * of the scope that decides (bpf/match_decide.h), at the device's egress before its qdiscs: whoever
 * sends needs neither know nor permit it, and forwarded packets are marked as well. ECN's two bits
 * stay, and IPv4's checksum is corrected by the difference (RFC 1624).
 *
 * A packet that has no socket here is forwarded: the prefix that it comes from tells its scope
 * where the one that it goes to does not.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../bpf/match_packet.h"
#include "../bpf/match_decide.h"
#include "class.h"

char class_license[] SEC("license") = "Dual BSD/GPL";

#define MAPPED bpf_htonl(0xffff)
#define CHECKSUM 10 /* octet of IPv4's header */

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_settings);
} class_current SEC(".maps");

/* Scope to its class; its size is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_scope);
} class_scopes SEC(".maps");

/* Scope to what was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_counts);
} class_counters SEC(".maps");

/* The part of an IP header that is looked at. */
union header {
	__u8 octet[40];
	__u16 half[20];
	__u32 word[10];
	__u64 pair[5];
};

/* A packet, as its header says. */
struct packet {
	union header ip;
	__u32 version;
	__u32 octets;
	__u8 tos; /* IPv4's type of service, IPv6's traffic class: DSCP and ECN */
};

/*
 * Where the network header begins: behind an Ethernet header, with VLAN tags or without, or at
 * once. Programs are told where it is to be read, and not where it is to be written.
 */
static __always_inline int network_offset(struct __sk_buff *skb, const union header *ip)
{
	const __u32 offsets[] = {ETH_HLEN, 0, ETH_HLEN + 4, ETH_HLEN + 8};
	__u64 there[2];

#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (!bpf_skb_load_bytes(skb, offsets[i], there, sizeof(there)) && there[0] == ip->pair[0] && there[1] == ip->pair[1])
			return offsets[i];
	}
	return -1;
}

/* Reads the header and both ends' addresses; 0 for what is not IP. */
static __always_inline int read(struct __sk_buff *skb, struct packet *p, struct match_prefix *to, struct match_prefix *from)
{
	union header *ip = &p->ip;

	if (bpf_skb_load_bytes_relative(skb, 0, ip, 20, BPF_HDR_START_NET))
		return 0;
	p->version = ip->octet[0] >> 4;
	to->length = from->length = 128;
	if (p->version == 4) {
		to->address[0] = to->address[1] = from->address[0] = from->address[1] = 0;
		to->address[2] = from->address[2] = MAPPED;
		from->address[3] = ip->word[3];
		to->address[3] = ip->word[4];
		p->octets = bpf_ntohs(ip->half[1]);
		p->tos = ip->octet[1];
		return 1;
	}
	if (p->version != 6 || bpf_skb_load_bytes_relative(skb, 0, ip, 40, BPF_HDR_START_NET))
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		from->address[i] = ip->word[2 + i];
		to->address[i] = ip->word[6 + i];
	}
	p->octets = 40 + bpf_ntohs(ip->half[2]);
	p->tos = ip->octet[0] << 4 | ip->octet[1] >> 4;
	return 1;
}

/* Writes the code point into IPv4's octet of type of service; 0 if it could. */
static __always_inline int write4(struct __sk_buff *skb, __u32 at, const union header *ip, __u8 tos)
{
	__u16 old = bpf_htons((__u16)ip->octet[0] << 8 | ip->octet[1]), new = bpf_htons((__u16)ip->octet[0] << 8 | tos);

	if (bpf_l3_csum_replace(skb, at + CHECKSUM, old, new, sizeof(new)))
		return 1;
	return bpf_skb_store_bytes(skb, at + 1, &tos, sizeof(tos), 0) != 0;
}

/* Writes it into IPv6's traffic class, which lies in two octets. */
static __always_inline int write6(struct __sk_buff *skb, __u32 at, const union header *ip, __u8 tos)
{
	__u8 first[2] = {0x60 | tos >> 4, (__u8)(tos << 4) | (ip->octet[1] & 0x0f)};

	return bpf_skb_store_bytes(skb, at, first, sizeof(first), BPF_F_RECOMPUTE_CSUM) != 0;
}

/* Writes the code point; 0 if it could. */
static __always_inline int write(struct __sk_buff *skb, const struct packet *p, __u8 tos)
{
	int at = network_offset(skb, &p->ip);

	if (at < 0)
		return 1;
	return p->version == 4 ? write4(skb, at, &p->ip, tos) : write6(skb, at, &p->ip, tos);
}

static __always_inline void give(struct __sk_buff *skb, const struct packet *p, const struct match_scopes *found, __u32 at)
{
	__u32 number = found->scope[at & (MATCH_SCOPES - 1)];
	struct match_order *order = match_order_of(found, at);
	struct class_scope *scope = bpf_map_lookup_elem(&class_scopes, &number);
	struct class_counts *counts = bpf_map_lookup_elem(&class_counters, &number);

	if (!order || !scope || !counts)
		return;
	__u8 tos = scope->dscp << 2 | (p->tos & 3);
	int shadow = order->flags & MATCH_ORDER_SHADOW;

	counts->packets++;
	counts->octets += p->octets;
	if (!shadow && scope->priority)
		skb->priority = scope->priority - 1;
	if (tos == p->tos)
		return;
	if (shadow || !write(skb, p, tos))
		counts->marked++;
	else
		counts->failed++;
}

static __always_inline void mark(struct __sk_buff *skb, __u32 kinds)
{
	struct match_scopes found = {};
	struct match_prefix to, from;
	struct packet p = {};
	__u32 at, real;

	if (!read(skb, &p, &to, &from))
		return;
	match_own(skb, kinds, &found);
	match_path(skb, &to, kinds, &found);
	if (!skb->sk)
		match_path(skb, &from, kinds & MATCH_PREFIXES, &found);
	at = match_decides(&found, 1);
	if (at >= MATCH_NONE)
		return;
	real = match_decides(&found, 0);
	give(skb, &p, &found, at);
	if (real < MATCH_NONE && real != at)
		give(skb, &p, &found, real);
}

SEC("tc")
int class_mark(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct class_settings *settings = bpf_map_lookup_elem(&class_current, &zero);

	if (settings && settings->kinds)
		mark(skb, settings->kinds);
	return TC_ACT_UNSPEC;
}
