/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * W3C trace contexts of HTTP/1 requests in clear text, in the header field
 *
 *   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *                version   trace id                  parent id        flags
 *
 * A context is stored per flow and added to the records of the flow's packets. The next request
 * replaces or deletes it; a SYN deletes it. The parser reads the first REQUEST bytes of TCP
 * payloads, of packets with and without extension headers.
 */
#ifndef WEIR_IOAM_CONTEXT_H
#define WEIR_IOAM_CONTEXT_H

#include <linux/pkt_cls.h>

#include "cache.h"
#include "edges.h"
#include "export.h"
#include "maps.h"
#include "traceparent.h"

#define REQUEST 1024
#define REQUEST_AT (IOAM_OCTETS / 2) /* offset in in of the request */
#define LINES 64                     /* parsed lines of a request */
#define FIELD_NAME 12                /* bytes of "traceparent:" */
#define SPACES_BEFORE 8              /* maximum number of blanks before the value */
#define TCP_SYN 2

_Static_assert(REQUEST_AT + REQUEST + FIELD_NAME <= IOAM_OCTETS, "a request is behind extension headers");

/* Reads the nth byte of a context from two digits; returns 0 for other characters. */
__attribute__((noinline)) int context_octet(__u32 at, __u32 n)
{
	struct ioam_work *w = work();
	__u8 high, low;

	if (!w || n >= CONTEXT_OCTETS)
		return 0;
	high = context_digit(octet(&w->in, at));
	low = context_digit(octet(&w->in, at + 1));
	((__u8 *)&w->context)[n] = high << 4 | low;
	return (high | low) < 16;
}

/* Reads the value of a field between two offsets of in; returns 0 for an invalid one. */
__attribute__((noinline)) int context_value(__u32 at, __u32 end)
{
	struct ioam_work *w = work();
	__u8 behind;

	if (!w)
		return 0;
	for (int i = 0; i < SPACES_BEFORE && (octet(&w->in, at) == ' ' || octet(&w->in, at) == '\t'); i++)
		at++;
	for (int i = 0; i < CONTEXT_OCTETS; i++) {
		if (context_dash(i) && octet(&w->in, at++) != '-')
			return 0;
		if (!context_octet(at, i))
			return 0;
		at += 2;
	}
	if (at >= end)
		return 0;
	behind = octet(&w->in, at);
	if (behind != '\r' && behind != '\n' && behind != ' ' && behind != '\t' && !(behind == '-' && w->context.version))
		return 0;
	return context_valid(&w->context);
}

/* Compares four characters with lower-case ones; mask has bit 5 set at letters. */
static __always_inline int differs_from_lower(const struct ioam_buffer *b, __u32 at, __u32 small, __u32 mask)
{
	__u32 four = (__u32)octet(b, at) << 24 | octet(b, at + 1) << 16 | octet(b, at + 2) << 8 | octet(b, at + 3);

	return (four | mask) != small;
}

/* Reports whether the line at an offset of in is a traceparent field. */
__attribute__((noinline)) int is_traceparent(__u32 at)
{
	struct ioam_work *w = work();

	return w && !differs_from_lower(&w->in, at, 0x74726163, 0x20202020) && !differs_from_lower(&w->in, at + 4, 0x65706172, 0x20202020) &&
	       !differs_from_lower(&w->in, at + 8, 0x656e743a, 0x20202000);
}

/* Returns the offset behind the line feed of a line, or end. */
__attribute__((noinline)) int line_end(__u32 at, __u32 end)
{
	struct ioam_work *w = work();

	if (!w)
		return end;
	for (__u32 i = 0; i < REQUEST && at + i < end; i++)
		if (octet(&w->in, at + i) == '\n')
			return at + i + 1;
	return end;
}

/*
 * Parses a line: 0 for another field, 1 for a valid context, DONE for an invalid one or the end of
 * the header.
 */
__attribute__((noinline)) int context_line(__u32 at, __u32 end)
{
	struct ioam_work *w = work();
	__u8 first;

	if (!w || at + FIELD_NAME >= end)
		return DONE;
	first = octet(&w->in, at);
	if (first == '\r' || first == '\n')
		return DONE; /* end of the header */
	if (!is_traceparent(at))
		return 0;
	return context_value(at + FIELD_NAME, end) ? 1 : DONE;
}

/* Finds and reads the context of a request; returns 0 without a valid one. */
__attribute__((noinline)) int find_context(__u32 octets)
{
	__u32 at = REQUEST_AT, end = REQUEST_AT + octets;

	for (int i = 0; i < LINES; i++) {
		int found;

		at = line_end(at, end);
		found = context_line(at, end);
		if (found)
			return found == 1;
	}
	return 0;
}

/* Reports whether four bytes start an HTTP method. */
static __always_inline int is_request(const __u8 *o)
{
	switch ((__u32)o[0] << 24 | o[1] << 16 | o[2] << 8 | o[3]) {
	case 0x47455420: /* GET */
	case 0x504f5354: /* POST */
	case 0x50555420: /* PUT */
	case 0x48454144: /* HEAD */
	case 0x44454c45: /* DELETE */
	case 0x50415443: /* PATCH */
	case 0x4f505449: /* OPTIONS */
		return 1;
	}
	return 0;
}

/*
 * Stores or deletes the flow's context if the TCP payload behind the header at a packet offset is a
 * request.
 */
__attribute__((noinline)) int read_request_context(struct __sk_buff *skb, __u32 at)
{
	struct ioam_work *w = work();
	__u8 head[2], method[4];
	__u32 there;

	if (!w || bpf_skb_load_bytes(skb, at + 12, head, sizeof(head)))
		return 0;
	edge_key(&w->key, &w->record, 0);
	if (head[1] & TCP_SYN) {
		bpf_map_delete_elem(&ioam_contexts, &w->key);
		return 0;
	}
	at += (head[0] >> 4) * 4;
	if (at + FIELD_NAME > skb->len || bpf_skb_load_bytes(skb, at, method, sizeof(method)) || !is_request(method))
		return 0;
	there = skb->len - at;
	if (there > REQUEST)
		there = REQUEST;
	if (bpf_skb_load_bytes(skb, at, (__u8 *)w->in.words + REQUEST_AT, bounded_length(REQUEST, there)))
		return 0;
	if (find_context(there)) {
		count(IOAM_CONTEXT);
		bpf_map_update_elem(&ioam_contexts, &w->key, &w->context, BPF_ANY);
	} else {
		bpf_map_delete_elem(&ioam_contexts, &w->key);
	}
	return 0;
}

/*
 * Appends the flow's context to the headers in in; returns IOAM_RECORD_CONTEXT, or 0 without one.
 */
__attribute__((noinline)) int append_context(struct __sk_buff *skb)
{
	struct ioam_work *w = work();
	struct ioam_context *context;
	__u64 eight[4];

	if (!w || w->record.protocol != PROTOCOL_TCP || !w->upper || w->total > REQUEST_AT - sizeof(*context))
		return 0;
	read_request_context(skb, w->upper);
	edge_key(&w->key, &w->record, 0);
	context = bpf_map_lookup_elem(&ioam_contexts, &w->key);
	if (!context)
		return 0;
	__builtin_memcpy(eight, context, sizeof(eight));
	for (int i = 0; i < 4; i++)
		*(__u64 *)((__u8 *)w->in.words + (((w->total & ~7U) + i * 8) & OCTET_MASK & ~7U)) = eight[i];
	return IOAM_RECORD_CONTEXT;
}

/* Reads requests in packets without options that end here; always TC_ACT_UNSPEC. */
__attribute__((noinline)) int read_packet_context(struct __sk_buff *skb, __u32 next)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = node && node->contexts ? current_work(node) : 0;
	struct ioam_cached_interface *dev;

	if (!w)
		return TC_ACT_UNSPEC;
	dev = lookup_interface(w, skb->ifindex);
	if (!dev->configured || !(dev->roles & IOAM_ROLE_INGRESS))
		return TC_ACT_UNSPEC;
	w->l2 = dev->l2 & 15;
	w->next = next;
	w->total = 0;
	describe_packet(skb, w);
	if (w->record.protocol == PROTOCOL_TCP && w->upper)
		read_request_context(skb, w->upper);
	return TC_ACT_UNSPEC;
}

#endif /* WEIR_IOAM_CONTEXT_H */
