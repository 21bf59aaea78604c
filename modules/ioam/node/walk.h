/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strict parser of extension headers. It works on a copy, which is stored in one call. */
#ifndef WEIR_IOAM_WALK_H
#define WEIR_IOAM_WALK_H

#include "../../../bpf/extension.h"
#include "export.h"
#include "maps.h"
#include "options.h"

#define OPTION_PAD1 0
#define OPTION_PADN 1
#define MAX_PADDING 7
#define MAX_HEADER 2048
#define FIRST_READ 64 /* bytes of the first read, before the header's length is known */

/* Reports whether only the destination reads a header of this type and the headers behind it. */
static __always_inline int is_destination_only(__u32 next)
{
	return next < 64 ? (EXTENSION_LOW & ~EXTENSION_REPEATED) >> next & 1 : extension_signals(next);
}

/* Adds to the current run of padding; reports whether it exceeds MAX_PADDING. */
static __always_inline int exceeds_padding(struct ioam_work *w, __u32 octets)
{
	__u32 padding = w->padding + octets;

	w->padding = padding;
	return padding > MAX_PADDING;
}

/* Moves to the next options header, past Routing headers; returns 0 at the end. */
static __always_inline int next_options_header(struct ioam_work *w)
{
	__u32 i = w->header;

#pragma clang loop unroll(disable)
	for (__u32 n = 0; n < MAX_HEADERS && i < w->headers && w->type[i & (MAX_HEADERS - 1)] == NEXTHDR_ROUTING; n++) {
		w->kept++;
		i++;
	}
	if (i >= w->headers)
		return 0;
	w->header = i + 1;
	w->at = w->start[i & (MAX_HEADERS - 1)] + 2;
	w->end = w->stop[i & (MAX_HEADERS - 1)];
	w->padding = 0;
	return 1;
}

/* Parses the next TLV in the header copy. */
__attribute__((noinline)) int parse_tlv(struct __sk_buff *skb)
{
	struct ioam_work *w = work();
	__u32 at, type, length;

	if (!w || (w->at >= w->end && !next_options_header(w)))
		return DONE;
	at = w->at;
	type = octet(&w->in, at);
	if (type == OPTION_PAD1) {
		w->at = at + 1;
		return exceeds_padding(w, 1) ? IOAM_PADDING : IOAM_GOOD;
	}
	length = octet(&w->in, at + 1);
	w->at = at + 2 + length;
	if (w->at > w->end)
		return IOAM_OPTION;
	if (type == OPTION_PADN)
		return exceeds_padding(w, 2 + length) ? IOAM_PADDING : IOAM_GOOD;
	w->padding = 0;
	if (type == OPTION_MUTABLE || type == OPTION_IMMUTABLE)
		return process_option(skb, at, length);
	w->kept++;
	return IOAM_GOOD;
}

static __always_inline int has_options(__u32 type)
{
	return type == NEXTHDR_HOP || type == NEXTHDR_DEST;
}

/*
 * Reports whether a header of this type at position nth is read. The border also reads Hop-by-Hop
 * headers in other places than the first, which RFC 8200 forbids and routers forward.
 */
static __always_inline int is_walked(__u32 type, int nth, __u32 border)
{
	if (type == NEXTHDR_HOP && !border)
		return !nth;
	return border ? extension_is(type) : extension_in(type, EXTENSION_REPEATED);
}

/*
 * Copies the header at offset at of the extension headers into in. Returns the offset of the next
 * header, or a negative parser error.
 */
static __always_inline int read_header(struct __sk_buff *skb, struct ioam_work *w, __u32 type, __u32 at)
{
	__u32 length, from = w->l2 + IP6_SIZE + at, there = skb->len - from;
	__u8 *to = (__u8 *)w->in.words + bounded(MAX_HEADER, at);

	if (at >= IOAM_OCTETS - MAX_HEADER) /* a header of maximum length would not fit */
		return -IOAM_MANY;
	if (from + 8 > skb->len)
		return -IOAM_HEADER;
	if (there > FIRST_READ)
		there = FIRST_READ;
	if (bpf_skb_load_bytes(skb, from, to, bounded_length(FIRST_READ, there)))
		return -IOAM_HEADER;
	w->next = octet(&w->in, at);
	length = extension_length(type, octet(&w->in, at + 1));
	if (length > there && bpf_skb_load_bytes(skb, from, to, bounded_length(MAX_HEADER, length)))
		return -IOAM_HEADER;
	return at + length;
}

/* Clears the state of the previous packet. */
static __always_inline void reset_packet(struct ioam_work *w)
{
	w->headers = w->total = w->ending = w->kept = w->options = w->dirty = w->sampled = w->proof = w->strict = w->deferred_count = w->active = 0;
}

/*
 * The common case of a domain: the Hop-by-Hop header is the only extension header, with one IOAM
 * option behind padding of 2 or 6 bytes.
 */
struct lone_option {
	__u8 *option; /* in the packet; its first 12 bytes are in the linear part */
	__u32 at;     /* bytes of the header before the option */
	__u32 length; /* value of the option's length field */
	__u32 total;  /* bytes of the header */
	__u8 next;
};

/* Reports whether an IPv6 packet is the common case. */
static __always_inline int find_lone_option(struct __sk_buff *skb, __u32 l2, struct lone_option *a)
{
	__u8 *head = AT_OFFSET((__u8 *)(long)skb->data, l2 + IP6_SIZE), *end = (__u8 *)(long)skb->data_end;

	if (head + 24 > end || is_walked(head[0], 1, 0) || head[2] != OPTION_PADN || head[3] & ~4)
		return 0;
	a->option = head[3] ? head + 8 : head + 4;
	a->at = head[3] ? 8 : 4;
	a->total = (head[1] + 1U) * 8;
	a->next = head[0];
	if (a->option + 12 > end || l2 + IP6_SIZE + a->total > skb->len)
		return 0;
	a->length = a->option[1];
	return (a->option[0] == OPTION_MUTABLE || a->option[0] == OPTION_IMMUTABLE) && a->at + 2 + a->length == a->total;
}

/*
 * read_headers() and process_options() for a lone option, without a walk. Returns a parser error,
 * or DONE for other packets.
 */
__attribute__((noinline)) int process_lone_option(struct __sk_buff *skb, __u32 next)
{
	struct ioam_work *w = work();
	struct lone_option a;

	if (!w || next != NEXTHDR_HOP || !find_lone_option(skb, w->l2 & 15, &a))
		return DONE;
	if (bpf_skb_load_bytes(skb, (w->l2 & 15) + IP6_SIZE, w->in.words, bounded_length(MAX_HEADER, a.total)))
		return DONE;
	reset_packet(w);
	w->next = a.next;
	w->total = w->stop[0] = a.total;
	w->start[0] = w->type[0] = 0;
	w->headers = 1;
	if (w->at_exit)
		describe_packet(skb, w);
	return process_option(skb, a.at, a.length);
}

/*
 * Reads the extension headers, from one of this type on, without parsing their options. At the
 * domain's border it also reads headers for the destination alone. Returns a parser error.
 */
__attribute__((noinline)) int read_headers(struct __sk_buff *skb, __u32 type, __u32 border)
{
	struct ioam_work *w = work();
	__u32 fragment = 0;

	if (!w)
		return IOAM_GOOD;
	reset_packet(w);
	w->next = type;
	for (int i = 0; i < MAX_HEADERS; i++) {
		int end;

		type = w->next;
		if (!is_walked(type, i, border))
			return IOAM_GOOD;
		end = read_header(skb, w, type, w->total);
		/*
		 * No options can follow. A HIP header is as long as its packet, and may be
		 * fragmented.
		 */
		if (extension_ends(type, w->next))
			return IOAM_GOOD;
		/* A first fragment has all headers (RFC 7112); later ones cannot be parsed. */
		if (end < 0)
			return fragment ? IOAM_MANY : -end;
		if (type == NEXTHDR_FRAGMENT) {
			if (extension_later(octet(&w->in, w->total + 2), octet(&w->in, w->total + 3)))
				return IOAM_GOOD; /* a later fragment: no headers follow */
			fragment = 1;
		}
		w->start[i] = w->total;
		w->type[i] = type;
		w->headers = i + 1;
		w->stop[i] = w->total = end;
	}
	return is_walked(w->next, MAX_HEADERS, border) ? IOAM_MANY : IOAM_GOOD;
}

/* Counts the next option if it is IOAM, valid or not. */
__attribute__((noinline)) int count_option(void)
{
	struct ioam_work *w = work();
	__u32 type;

	if (!w || w->at >= w->end)
		return DONE;
	type = octet(&w->in, w->at);
	if (type == OPTION_MUTABLE || type == OPTION_IMMUTABLE)
		w->options++;
	w->at += type == OPTION_PAD1 ? 1 : 2U + octet(&w->in, w->at + 1);
	return IOAM_GOOD;
}

/* Counts the IOAM options of one header in in. */
__attribute__((noinline)) int count_options(__u32 start, __u32 end)
{
	struct ioam_work *w = work();

	if (!w)
		return IOAM_GOOD;
	w->at = start + 2;
	w->end = end;
	for (int i = 0; i < IOAM_TLVS; i++)
		if (count_option())
			return IOAM_GOOD;
	return w->at >= w->end ? IOAM_GOOD : IOAM_MANY;
}

/* Counts the IOAM options of all headers read. */
static __always_inline int find_ioam(struct ioam_work *w)
{
	for (__u32 i = 0; i < MAX_HEADERS && i < w->headers; i++)
		if (has_options(w->type[i]) && count_options(w->start[i], w->stop[i]))
			return IOAM_MANY;
	return IOAM_GOOD;
}

/* Parses and processes the headers read. */
__attribute__((noinline)) int process_options(struct __sk_buff *skb)
{
	struct ioam_work *w = work();

	if (!w)
		return IOAM_GOOD;
	w->at = w->end = w->header = 0;
	if (w->at_exit)
		__builtin_memset(w->ended, 0, sizeof(w->ended));
	for (int i = 0; i < IOAM_TLVS; i++) {
		int result = parse_tlv(skb);

		if (result)
			return result == DONE ? IOAM_GOOD : result;
	}
	return IOAM_MANY;
}

#endif /* WEIR_IOAM_WALK_H */
