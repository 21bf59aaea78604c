/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packet headers. */
#ifndef WEIR_LIMIT_PACKET_H
#define WEIR_LIMIT_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/jumbo.h"
#include "../../../bpf/match.h"
#include "../../../bpf/upper_layer.h"
#include "limit.h"

/* Parsed packet. */
struct packet {
	__u32 segments;
	__u32 headers; /* bytes repeated in every segment: network and transport header */
	__u8 protocol;
	__u8 ecn; /* the two ECN bits (RFC 3168) */
	__u8 urgent; /* TCP PSH, SYN, FIN or RST: the sender may send nothing after it */
	struct match_prefix remote; /* remote address, /128 */
	__u32 sequence; /* TCP */
	__s64 now;  /* CLOCK_MONOTONIC */
};

enum packet_bounds {
	ETHERNET_MTU = 1500,      /* fragment size of longer datagrams */
	MIN_MTU = 1280,         /* RFC 8200, section 5 */
	FRAGMENT_HEADER = 8       /* bytes of the IPv6 fragment header; fragment lengths are multiples of it */
};

/*
 * Skips IPv6 extension headers. Sets p->protocol (none in a later fragment) and the offset of the
 * upper layer. Returns the bytes repeated in every fragment.
 */
static __always_inline __u32 skip_extensions(struct __sk_buff *skb, struct packet *p, __u32 *network)
{
	struct upper_layer upper;

	*network = sizeof(struct ipv6hdr);
	if (!extension_is(p->protocol))
		return sizeof(struct ipv6hdr);
	upper = upper_layer_of(p->protocol);
	upper_layer_walk(skb, &upper, 0);
	*network = upper.at;
	p->protocol = upper.later ? IPPROTO_FRAGMENT : upper.protocol;
	return upper.repeated;
}

/* Loads a TCP header that may lie outside of the linear data. */
static __always_inline void load_tcp(struct __sk_buff *skb, struct packet *p, __u32 network)
{
	struct tcphdr tcp;

	if (bpf_skb_load_bytes(skb, network, &tcp, sizeof(tcp)))
		return;
	p->headers = network + tcp.doff * 4;
	p->sequence = bpf_ntohl(tcp.seq);
	p->urgent = tcp.psh | tcp.syn | tcp.fin | tcp.rst;
}

/*
 * Counts the fragments of an oversized packet, which is fragmented after it was charged. Each
 * fragment repeats extension headers, and a sender could request small fragments to evade its
 * charge, so packets with extension headers count with the minimum MTU.
 */
static __always_inline void count_fragments(struct packet *p, __u32 len, __u32 repeated, __u32 shim)
{
	__u32 mtu = repeated > sizeof(struct ipv6hdr) && shim ? MIN_MTU : ETHERNET_MTU, room;

	if (p->segments > 1 || len <= mtu || repeated + shim + 8 > mtu)
		return;
	room = (mtu - repeated - shim) & ~7;
	p->segments = (len - repeated + room - 1) / room;
	p->headers = repeated + shim;
}

/*
 * Parses the headers into a packet that has only its segments, and returns its protocol. A global
 * function, since it has two callers.
 */
__attribute__((noinline)) int parse(struct __sk_buff *skb, struct packet *p, __u32 direction)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 network = 0, repeated = 0, shim = 0;

	if (!p)
		return 0;
	p->remote.length = 128;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data;

		if ((void *)(ip + 1) > end)
			return 0;
		network = repeated = ip->ihl * 4;
		p->protocol = ip->protocol;
		p->ecn = ip->tos & 3;
		p->remote.address[2] = bpf_htonl(0xffff);
		p->remote.address[3] = direction == LIMIT_EGRESS ? ip->daddr : ip->saddr;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;

		if ((void *)(ip + 1) > end)
			return 0;
		p->protocol = ip->nexthdr;
		repeated = skip_extensions(skb, p, &network);
		shim = FRAGMENT_HEADER;
		p->ecn = ip->flow_lbl[0] >> 4 & 3;
		__builtin_memcpy(p->remote.address, direction == LIMIT_EGRESS ? &ip->daddr : &ip->saddr, 16);
	}
	p->headers = network + 8;
	if (p->protocol == IPPROTO_TCP && network > 60) {
		load_tcp(skb, p, network);
	} else if (p->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = data + (network & 63);

		if ((void *)(tcp + 1) > end)
			return 0;
		p->headers = network + tcp->doff * 4;
		p->sequence = bpf_ntohl(tcp->seq);
		p->urgent = tcp->psh | tcp->syn | tcp->fin | tcp->rst;
	} else {
		count_fragments(p, skb->len, repeated, shim);
	}
	if (shim && network > sizeof(struct ipv6hdr))
		p->headers -= jumbo_header(skb);
	return p->protocol;
}

/* Returns the bytes on the wire: skb->len counts the headers of a super-packet once. */
static __always_inline __u64 wire_bytes(const struct packet *p, __u32 len, __u32 overhead)
{
	return (__u64)len + (__u64)(p->segments - 1) * p->headers + (__u64)p->segments * overhead;
}

/* Counts an admitted packet. */
static __always_inline void count_admitted(struct limit_counters *count, const struct packet *p, __u32 wire)
{
	count->packets++;
	count->segments += p->segments;
	count->bytes += wire;
}

#endif
