/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selects a decision's hop for a packet, and checks the reverse path of its source:
 *
 *     decision --> fast_nexts --> one hop, or one of fast_hops by a hash of the addresses
 */
#ifndef WEIR_OFFLOAD_HOP_H
#define WEIR_OFFLOAD_HOP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tables.h"

/* Number of this port. */
const volatile __u32 fast_port = 0;

/* XDP_TX works at this port. A veth needs a redirect: XDP_TX does not wake a peer with GRO. */
const volatile __u32 fast_transmit = 1;

struct packet {
	struct xdp_md *ctx;
	void *data, *end;
	__u32 frame;  /* bytes of the whole frame */
	__u16 vlan;   /* 0 without a tag */
	__u16 header; /* bytes before the packet: 14 or 18 */
	__u32 size;   /* bytes of the packet */
};

static __always_inline struct fast_next *next_of(__u32 decision)
{
	return bpf_map_lookup_elem(&fast_nexts, &decision);
}

static __always_inline int comes_by(const struct packet *p, const struct fast_hop *h)
{
	return h->port == fast_port && h->vlan == p->vlan;
}

/* Reverse-path filter: the kernel sends to the source through the input link. */
static __always_inline int believable(const struct packet *p, __u32 decision, __u8 strict)
{
	const struct fast_next *n = next_of(decision);

	if (!n || !n->count)
		return 0;
	if (strict != 1)
		return 1;
	if (n->count == 1)
		return comes_by(p, &n->hop);
	for (__u32 i = 0; i < FAST_HOPS && i < n->count; i++) {
		__u32 at = n->first + i;
		const struct fast_hop *h = bpf_map_lookup_elem(&fast_hops, &at);

		if (h && comes_by(p, h))
			return 1;
	}
	return 0;
}

/* Selects a hop by a hash below 2^31. */
static __always_inline const struct fast_hop *choose(const struct fast_next *n, __u32 hash)
{
	for (__u32 i = 0; i < FAST_HOPS && i < n->count; i++) {
		__u32 at = n->first + i;
		const struct fast_hop *h = bpf_map_lookup_elem(&fast_hops, &at);

		if (!h || hash < h->bound)
			return h;
	}
	return 0;
}

static __always_inline __u32 mix(__u64 x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return (x >> 33) & 0x7fffffff;
}

/* Returns the hop of a decision, or 0 with the reason for the CPU. */
static __always_inline const struct fast_hop *hop_of(const struct packet *p, __u32 decision, __u64 flow, __u32 *reason)
{
	const struct fast_next *n = decision ? next_of(decision) : 0;
	const struct fast_hop *h;

	*reason = FAST_ROUTE;
	if (!n || !n->count)
		return 0;
	h = n->count == 1 ? &n->hop : choose(n, mix(flow));
	if (!h)
		return 0;
	*reason = FAST_MTU;
	if (p->size > h->mtu)
		return 0;
	*reason = FAST_SAME; /* the kernel may send a redirect */
	return comes_by(p, h) ? 0 : h;
}

#endif
