/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loopback (RFC 9322 section 4): of a packet whose trace asks for it a copy goes back to its
 * source, without what follows the options.
 *
 *   ingress                  rewritten: from this node to the source, no next header, without the flag
 *     packet --------------> cloned into ingress again -> cut there -> the stack's route -> egress,
 *       written back,                                                  where the node records
 *       goes on
 *
 * A clone shares its octets with the packet until one of the two is written to. It is cut when it
 * comes by itself, since what was cut off the packet could not be put back. A packet whose checksum
 * is unfinished, as those of a veth device, cannot be cut before it: the copy then keeps up to 18
 * octets, or 58 of a tunnel, which are ignored behind No Next Header (RFC 8200 section 4.7).
 */
#ifndef WEIR_IOAM_LOOPBACK_H
#define WEIR_IOAM_LOOPBACK_H

#define COPY_HOP_LIMIT 64
#define LOOP_TYPE 0x800000U /* the only one that is looped: hop limit and node */
#define REWRITTEN 36        /* octets of the IPv6 header behind its first four */
#define SAVED 16            /* words of in before what the packet had */

#define UDP_CHECKED 8 /* octets up to the end of the checksum */
#define TCP_CHECKED 18

/* States how many octets a copy has behind its IPv6 header; the stack cuts off the rest. */
static __always_inline long state(struct __sk_buff *skb, __u32 l2, __u32 payload)
{
	__u8 octets[2] = {payload >> 8, payload};

	return bpf_skb_store_bytes(skb, l2 + 4, octets, sizeof(octets), 0);
}

/* Cuts a copy so many octets behind its headers. */
static __always_inline long cut(struct __sk_buff *skb, __u32 l2, __u32 total, __u32 behind)
{
	if (bpf_skb_change_tail(skb, l2 + IP6_SIZE + total + behind, 0))
		return -1;
	return state(skb, l2, total + behind);
}

/* A copy of this node's that has come by itself. */
static __always_inline int send_back(struct __sk_buff *skb, __u32 l2, __u32 total)
{
	__u32 most = total + IP6_SIZE + TCP_CHECKED, there = skb->len - l2 - IP6_SIZE;

	if (!cut(skb, l2, total, 0) || !cut(skb, l2, total, UDP_CHECKED) || !cut(skb, l2, total, TCP_CHECKED))
		return TC_ACT_UNSPEC;
	/* What a virtual device hands on as a tunnel's packet programs may not cut, but IPv6 does. */
	if (!skb->gso_size && !state(skb, l2, there < most ? there : most))
		return TC_ACT_UNSPEC;
	count(IOAM_FAILED);
	return TC_ACT_SHOT;
}

/* A copy of a packet of this node's own. */
static __always_inline int returned(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, const struct alone *a)
{
	begin(w);
	w->next = a->next;
	w->total = a->total;
	if (!bpf_skb_load_bytes(skb, w->l2 + IP6_SIZE, w->in.words, upto(LONGEST_HEADER, a->total))) {
		describe(skb, w);
		w->record.time = utc(w, node, bpf_ktime_get_ns());
		w->record.proof = 0;
		hand_over(&w->record, a->total, IOAM_RECORD_LOOPED);
	}
	count(IOAM_RETURNED);
	return TC_ACT_SHOT;
}

/* Stores the IPv6 header's end and of the options the first octet and the trace's first word. */
static __always_inline long rewrite(struct __sk_buff *skb, __u32 l2, const struct alone *a, const void *header, __u8 next, __u32 head)
{
	return bpf_skb_store_bytes(skb, l2 + 4, header, REWRITTEN, 0) ||
	       bpf_skb_store_bytes(skb, l2 + IP6_SIZE, &next, 1, 0) ||
	       bpf_skb_store_bytes(skb, l2 + IP6_SIZE + a->at + 4, &head, 4, 0);
}

/* Clones a packet into this interface, as a copy for its source; the packet is then as it was. */
static __always_inline int clone(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, const struct alone *a, __u32 head)
{
	__u32 *copy = w->in.words, *saved = &w->in.words[SAVED], l2 = w->l2 & 15;

	if (bpf_skb_load_bytes(skb, l2 + 4, saved, REWRITTEN))
		return DONE;
	copy[0] = bpf_htonl(a->total << 16 | NEXTHDR_HOP << 8 | COPY_HOP_LIMIT);
	__builtin_memcpy(&copy[1], node->address, 16);
	__builtin_memcpy(&copy[5], &saved[1], 16);
	if (!rewrite(skb, l2, a, copy, NEXTHDR_NONE, bpf_htonl(head & ~IOAM_FLAG_LOOPBACK)) &&
	    !bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
		count(IOAM_LOOPED);
	else
		count(IOAM_FAILED);
	if (!rewrite(skb, l2, a, saved, a->next, bpf_htonl(head)))
		return DONE;
	count(IOAM_FAILED);
	return TC_ACT_SHOT;
}

/* What comes in with a Hop-by-Hop header; DONE where it goes on as always. */
__attribute__((noinline)) int loop(struct __sk_buff *skb)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	struct ioam_space *ns;
	struct alone a;
	__u32 head, l2, last;
	__u64 from[2];

	if (!node || !w)
		return DONE;
	l2 = w->l2 & 15;
	if (!is_alone(skb, l2, &a) || a.option[3] != IOAM_TRACE || a.length < 10 || (a.length & 3) != 2)
		return DONE;
	head = bpf_ntohl(*(__u32 *)(a.option + 4));
	ns = space(w, head >> 16);
	if (!ns->is || !(ns->flags & IOAM_LOOPBACK) || bpf_ntohl(*(__u32 *)(a.option + 8)) >> 8 != LOOP_TYPE)
		return DONE;
	if (!(head & IOAM_FLAG_LOOPBACK)) {
		if (a.next != NEXTHDR_NONE || bpf_skb_load_bytes(skb, l2 + 8, from, sizeof(from)))
			return DONE;
		if (from[0] == node->address[0] && from[1] == node->address[1])
			return send_back(skb, l2, a.total);
		/* The first hop's data is the last of the list. */
		if (a.length < 14 || bpf_skb_load_bytes(skb, l2 + IP6_SIZE + a.total - 4, &last, sizeof(last)))
			return DONE;
		return (bpf_ntohl(last) & 0xffffff) == node->id ? returned(skb, w, node, &a) : DONE;
	}
	if ((head & 0x7f) * 4 + 10 > a.length)
		return DONE;
	if (!spend(w, node, l2 + IP6_SIZE + a.total)) {
		count(IOAM_LOOP_LIMITED);
		return DONE;
	}
	return clone(skb, w, node, &a, head);
}

#endif /* WEIR_IOAM_LOOPBACK_H */
