/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the data plane reads from a packet. */
#ifndef WEIR_LIMIT_PACKET_H
#define WEIR_LIMIT_PACKET_H

#include "../../../bpf/match.h"
#include "../../../bpf/upper_layer.h"
#include "limit.h"

/* The packet as the data plane sees it. */
struct packet {
	__u32 segments;
	__u32 headers; /* octets repeated in every segment: network and transport header */
	__u8 protocol;
	__u8 ecn; /* the two ECN bits (RFC 3168) */
	__u8 urgent; /* TCP: PSH, SYN, FIN or RST is set, so that no other segment need follow */
	struct match_prefix remote; /* the other end's address, /128 */
	__u32 sequence; /* TCP */
	__s64 now;  /* CLOCK_MONOTONIC */
};

enum packet_bounds {
	ETHERNET_MTU = 1500,      /* what longer datagrams are taken to be cut for */
	LEAST_MTU = 1280,         /* RFC 8200, section 5 */
	FRAGMENT_HEADER = 8       /* octets of IPv6's fragment header, and what the length of a fragment is a multiple of */
};

/*
 * Reads what is behind IPv6's header: the protocol into p, which has none where only another
 * fragment tells it, and the octets up to it; returns those that are repeated in every fragment.
 */
static __always_inline __u32 behind_extensions(struct __sk_buff *skb, struct packet *p, __u32 *network)
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

/* TCP behind more headers than are surely in the linear part. */
static __always_inline void far_tcp(struct __sk_buff *skb, struct packet *p, __u32 network)
{
	struct tcphdr tcp;

	if (bpf_skb_load_bytes(skb, network, &tcp, sizeof(tcp)))
		return;
	p->headers = network + tcp.doff * 4;
	p->sequence = bpf_ntohl(tcp.seq);
	p->urgent = tcp.psh | tcp.syn | tcp.fin | tcp.rst;
}

/*
 * What is longer than a device takes leaves in fragments, after it was charged. A sender with
 * extension headers has each fragment repeat them, and asks for the shortest ones if he wants to
 * send much by little: they are taken to be of the least MTU.
 */
static __always_inline void count_fragments(struct packet *p, __u32 len, __u32 repeated, __u32 shim)
{
	__u32 mtu = repeated > sizeof(struct ipv6hdr) && shim ? LEAST_MTU : ETHERNET_MTU, room;

	if (p->segments > 1 || len <= mtu || repeated + shim + 8 > mtu)
		return;
	room = (mtu - repeated - shim) & ~7;
	p->segments = (len - repeated + room - 1) / room;
	p->headers = repeated + shim;
}

/*
 * Reads the headers into a packet that has nothing but its segments, and returns its protocol.
 * Segments become fragments where the packet will be cut.
 * Global like find_rest, since it has two callers.
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
		repeated = behind_extensions(skb, p, &network);
		shim = FRAGMENT_HEADER;
		p->ecn = ip->flow_lbl[0] >> 4 & 3;
		__builtin_memcpy(p->remote.address, direction == LIMIT_EGRESS ? &ip->daddr : &ip->saddr, 16);
	}
	p->headers = network + 8;
	if (p->protocol == IPPROTO_TCP && network > 60) {
		far_tcp(skb, p, network);
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
	return p->protocol;
}

/* Octets on the wire: skb->len counts the headers of a super-packet once. */
static __always_inline __u64 wire_bytes(const struct packet *p, __u32 len, __u32 overhead)
{
	return (__u64)len + (__u64)(p->segments - 1) * p->headers + (__u64)p->segments * overhead;
}

/* Counts a packet that was admitted. */
static __always_inline void count_admitted(struct limit_counters *count, const struct packet *p, __u32 wire)
{
	count->packets++;
	count->segments += p->segments;
	count->bytes += wire;
}

#endif
