/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * IPv6-in-IPv6 encapsulation (RFC 9486 section 5.3, RFC 2473): the options belong to an outer
 * packet from this node to the exit.
 *
 *   | IPv6 | payload |  ->  | IPv6, from this node to the exit | options | IPv6 | payload |
 */
#ifndef WEIR_IOAM_TUNNEL_H
#define WEIR_IOAM_TUNNEL_H

#include "export.h"
#include "maps.h"

#define TUNNEL_HOP_LIMIT 64
#define ECN 3 /* bits of the traffic class; also the code point CE */

/*
 * Writes the end of the outer header. Version, traffic class and flow label are the inner header's.
 */
static __always_inline void write_outer_header(struct ioam_buffer *b, const struct ioam_settings *node, const struct ioam_encap *e)
{
	put_octet(b, 7, TUNNEL_HOP_LIMIT);
	__builtin_memcpy(&b->words[2], node->address, 16);
	__builtin_memcpy(&b->words[6], e->exit, 16);
}

/* Reports whether a packet without remaining options is a tunnel packet to this node. */
static __always_inline int is_tunnelled(struct __sk_buff *skb, const struct ioam_work *w, const struct ioam_settings *node)
{
	__u64 to[2];

	if (w->next != PROTOCOL_IP6 || w->kept || bpf_skb_load_bytes(skb, (w->l2 & 15) + 24, to, sizeof(to)))
		return 0;
	return (to[0] | to[1]) && to[0] == node->address[0] && to[1] == node->address[1];
}

/*
 * Removes the outer header; returns 0 if the packet must be dropped. CE in the outer header is
 * copied to the inner one, unless that is Not-ECT (RFC 6040 section 4.2).
 */
static __always_inline int remove_outer_header(struct __sk_buff *skb, const struct ioam_work *w)
{
	__u32 l2 = w->l2 & 15, size = IP6_SIZE + w->total;
	__u8 outer[2], inner[2];

	if (bpf_skb_load_bytes(skb, l2, outer, 2) || bpf_skb_load_bytes(skb, l2 + size, inner, 2) || inner[0] >> 4 != 6)
		return 0;
	if ((outer[1] >> 4 & ECN) == ECN && (inner[1] >> 4 & ECN) != ECN) {
		if (!(inner[1] >> 4 & ECN))
			return 0;
		inner[1] |= ECN << 4;
		if (bpf_skb_store_bytes(skb, l2 + size, inner, 2, BPF_F_RECOMPUTE_CSUM))
			return 0;
	}
	return !bpf_skb_adjust_room(skb, -(int)size, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET);
}

#endif /* WEIR_IOAM_TUNNEL_H */
