/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loopback (RFC 9322 section 4): a packet with the loopback flag causes a copy to its source,
 * without the payload.
 *
 *   ingress
 *     packet -> store copy header: this node to the source, no next header, no loopback flag
 *            -> clone into ingress -> cut there -> routing -> egress, which records node data
 *            -> restore the header, continue
 *
 * A clone shares its bytes with the packet until one of them is written. It is cut in its own
 * ingress run, because cut bytes of the packet could not be restored. A packet with an unfinished
 * checksum (veth) cannot be cut before the checksum field: its copy keeps up to 18 bytes, or 58 of
 * a tunnel, behind No Next Header, where receivers ignore them (RFC 8200 section 4.7).
 */
#ifndef WEIR_IOAM_LOOPBACK_H
#define WEIR_IOAM_LOOPBACK_H

#include <linux/pkt_cls.h>

#include "cache.h"
#include "export.h"
#include "flags.h"
#include "walk.h"

#define COPY_HOP_LIMIT 64
#define LOOP_TYPE 0x800000U /* required trace type: hop limit and node id */
#define REWRITTEN 36        /* bytes of the IPv6 header behind the first four */
#define SAVED 16            /* word of in with the saved header */

#define UDP_CHECKED 8 /* bytes up to the end of the checksum */
#define TCP_CHECKED 18

/* Stores the payload length; IPv6 trims longer packets to it. */
static __always_inline long set_payload_length(struct __sk_buff *skb, __u32 l2, __u32 payload)
{
	__u8 octets[2] = {payload >> 8, payload};

	return bpf_skb_store_bytes(skb, l2 + 4, octets, sizeof(octets), 0);
}

/* Cuts a copy at a number of bytes behind its extension headers. */
static __always_inline long cut_copy(struct __sk_buff *skb, __u32 l2, __u32 total, __u32 behind)
{
	if (bpf_skb_change_tail(skb, l2 + IP6_SIZE + total + behind, 0))
		return -1;
	return set_payload_length(skb, l2, total + behind);
}

/* Cuts a copy made by this node, in its own ingress run. */
static __always_inline int finish_copy(struct __sk_buff *skb, __u32 l2, __u32 total)
{
	__u32 most = total + IP6_SIZE + TCP_CHECKED, there = skb->len - l2 - IP6_SIZE;

	if (!cut_copy(skb, l2, total, 0) || !cut_copy(skb, l2, total, UDP_CHECKED) || !cut_copy(skb, l2, total, TCP_CHECKED))
		return TC_ACT_UNSPEC;
	/* bpf_skb_change_tail() rejects tunnel packets of virtual devices; IPv6 trims them. */
	if (!skb->gso_size && !set_payload_length(skb, l2, there < most ? there : most))
		return TC_ACT_UNSPEC;
	count(IOAM_FAILED);
	return TC_ACT_SHOT;
}

/* Exports and ends a returned copy of this node's packet. */
static __always_inline int end_returned(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, const struct lone_option *a)
{
	reset_packet(w);
	w->next = a->next;
	w->total = a->total;
	if (!bpf_skb_load_bytes(skb, w->l2 + IP6_SIZE, w->in.words, bounded_length(MAX_HEADER, a->total))) {
		describe_packet(skb, w);
		w->record.time = utc(w, node, bpf_ktime_get_ns());
		w->record.proof = 0;
		export_record(&w->record, a->total, IOAM_RECORD_LOOPED);
	}
	count(IOAM_RETURNED);
	return TC_ACT_SHOT;
}

/* Stores the IPv6 header's end, the next header behind the options, and the trace's first word. */
static __always_inline long store_copy_header(struct __sk_buff *skb, __u32 l2, const struct lone_option *a, const void *header, __u8 next, __u32 head)
{
	return bpf_skb_store_bytes(skb, l2 + 4, header, REWRITTEN, 0) ||
	       bpf_skb_store_bytes(skb, l2 + IP6_SIZE, &next, 1, 0) ||
	       bpf_skb_store_bytes(skb, l2 + IP6_SIZE + a->at + 4, &head, 4, 0);
}

/* Clones a packet into this interface as the copy, and restores the packet. */
static __always_inline int clone_copy(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, const struct lone_option *a, __u32 head)
{
	__u32 *copy = w->in.words, *saved = &w->in.words[SAVED], l2 = w->l2 & 15;

	if (bpf_skb_load_bytes(skb, l2 + 4, saved, REWRITTEN))
		return DONE;
	copy[0] = bpf_htonl(a->total << 16 | NEXTHDR_HOP << 8 | COPY_HOP_LIMIT);
	__builtin_memcpy(&copy[1], node->address, 16);
	__builtin_memcpy(&copy[5], &saved[1], 16);
	if (!store_copy_header(skb, l2, a, copy, NEXTHDR_NONE, bpf_htonl(head & ~IOAM_FLAG_LOOPBACK)) &&
	    !bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
		count(IOAM_LOOPED);
	else
		count(IOAM_FAILED);
	if (!store_copy_header(skb, l2, a, saved, a->next, bpf_htonl(head)))
		return DONE;
	count(IOAM_FAILED);
	return TC_ACT_SHOT;
}

/* Verdict for a received packet with a Hop-by-Hop header; DONE for those without loopback. */
__attribute__((noinline)) int loopback_verdict(struct __sk_buff *skb)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	struct ioam_cached_namespace *ns;
	struct lone_option a;
	__u32 head, l2, last;
	__u64 from[2];

	if (!node || !w)
		return DONE;
	l2 = w->l2 & 15;
	if (!find_lone_option(skb, l2, &a) || a.option[0] != OPTION_MUTABLE || a.option[3] != IOAM_TRACE || a.length < 10 || (a.length & 3) != 2)
		return DONE;
	head = bpf_ntohl(*(__u32 *)(a.option + 4));
	ns = lookup_namespace(w, head >> 16);
	if (!ns->configured || !(ns->flags & IOAM_LOOPBACK) || bpf_ntohl(*(__u32 *)(a.option + 8)) >> 8 != LOOP_TYPE)
		return DONE;
	if (!(head & IOAM_FLAG_LOOPBACK)) {
		if (a.next != NEXTHDR_NONE || bpf_skb_load_bytes(skb, l2 + 8, from, sizeof(from)))
			return DONE;
		if (from[0] == node->address[0] && from[1] == node->address[1])
			return finish_copy(skb, l2, a.total);
		/* The last node of the list is the first hop. */
		if (a.length < 14 || bpf_skb_load_bytes(skb, l2 + IP6_SIZE + a.total - 4, &last, sizeof(last)))
			return DONE;
		return (bpf_ntohl(last) & 0xffffff) == node->id ? end_returned(skb, w, node, &a) : DONE;
	}
	if ((head & 0x7f) * 4 + 10 > a.length)
		return DONE;
	if (!within_flag_rate(w, node, l2 + IP6_SIZE + a.total)) {
		count(IOAM_LOOP_LIMITED);
		return DONE;
	}
	return clone_copy(skb, w, node, &a, head);
}

#endif /* WEIR_IOAM_LOOPBACK_H */
