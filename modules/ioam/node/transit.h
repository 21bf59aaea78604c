/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fast path of transit nodes: a packet with a trace as its only option, and space in it, gets this
 * node's data without a copy of its headers. walk.h handles all others.
 */
#ifndef WEIR_IOAM_TRANSIT_H
#define WEIR_IOAM_TRANSIT_H

#include <linux/pkt_cls.h>

#include "cache.h"
#include "node_data.h"
#include "options.h"
#include "walk.h"

/* Returns DONE for other packets, which stay unchanged. */
__attribute__((noinline)) int transit_verdict(struct __sk_buff *skb, __u32 l2, __u32 hop_limit)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	struct ioam_cached_namespace *ns;
	struct lone_option a;
	__u32 head, type, remaining, words, at, *data;

	if (!node || !w)
		return DONE;
	l2 &= 15;
	if (!find_lone_option(skb, l2, &a) || a.option[0] != OPTION_MUTABLE || a.option[3] != IOAM_TRACE || a.length < 10 || (a.length & 3) != 2)
		return DONE;
	data = (__u32 *)(a.option + 4);
	head = bpf_ntohl(data[0]);
	type = bpf_ntohl(data[1]) >> 8;
	remaining = head & 0x7f;
	ns = lookup_namespace(w, head >> 16);
	if (!ns->configured) {
		count(IOAM_UNKNOWN);
		return TC_ACT_UNSPEC;
	}
	words = head >> 11 & 0x1f;
	if (head & FLAGS || type & TYPE_OPAQUE || !words || words != field_words(type) || words > remaining || remaining * 4 + 10 > a.length)
		return DONE;
	w->sampled = w->at_exit = 0;
	w->l2 = l2;
	w->hop_limit = hop_limit;
	sample(skb, w, node, type);
	store_fields(w, node, ns, w->in.words, WORD_MASK, 0, type);
	head = bpf_htonl(head - words);
	at = l2 + IP6_SIZE + a.at + 4;
	if (bpf_skb_store_bytes(skb, at, &head, 4, 0) ||
	    bpf_skb_store_bytes(skb, at + 8 + (remaining - words) * 4, w->in.words, bounded_length(128, words * 4), 0))
		count(IOAM_FAILED);
	count(IOAM_RECORDED);
	return TC_ACT_UNSPEC;
}

#endif /* WEIR_IOAM_TRANSIT_H */
