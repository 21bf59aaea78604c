/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the data plane reads from a packet. */
#ifndef WEIR_LIMIT_PACKET_H
#define WEIR_LIMIT_PACKET_H

#include "../bpf/match.h"
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

/*
 * Reads the headers into a packet that has nothing but its segments, and returns its protocol.
 * Global like find_rest, since it has two callers.
 */
__attribute__((noinline)) int parse(struct __sk_buff *skb, struct packet *p, __u32 direction)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 network = 0;

	if (!p)
		return 0;
	p->remote.length = 128;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data;

		if ((void *)(ip + 1) > end)
			return 0;
		network = ip->ihl * 4;
		p->protocol = ip->protocol;
		p->ecn = ip->tos & 3;
		p->remote.address[2] = bpf_htonl(0xffff);
		p->remote.address[3] = direction == LIMIT_EGRESS ? ip->daddr : ip->saddr;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;

		if ((void *)(ip + 1) > end)
			return 0;
		network = sizeof(*ip);
		p->protocol = ip->nexthdr;
		p->ecn = ip->flow_lbl[0] >> 4 & 3;
		__builtin_memcpy(p->remote.address, direction == LIMIT_EGRESS ? &ip->daddr : &ip->saddr, 16);
	}
	p->headers = network + 8;
	if (p->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = data + (network & 63);

		if ((void *)(tcp + 1) > end)
			return 0;
		p->headers = network + tcp->doff * 4;
		p->sequence = bpf_ntohl(tcp->seq);
		p->urgent = tcp->psh | tcp->syn | tcp->fin | tcp->rst;
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
