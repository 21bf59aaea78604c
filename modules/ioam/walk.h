/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the extension headers of a packet into memory, strictly, and finds the IOAM options in
 * them. Changes are made in that copy, which is stored at once.
 */
#ifndef WEIR_IOAM_WALK_H
#define WEIR_IOAM_WALK_H

#define OPTION_PAD1 0
#define OPTION_PADN 1
#define OPTION_IMMUTABLE 0x11
#define OPTION_MUTABLE 0x31
#define LONGEST_PADDING 7
#define LONGEST_HEADER 2048
#define GLANCE 64 /* octets that are read before it is known how long a header is */

/* Whether a header is one that only the destination reads, and what is behind it as well. */
static __always_inline int hides(__u32 next)
{
	return next < 64 ? (EXTENSION_LOW & ~EXTENSION_REPEATED) >> next & 1 : extension_signals(next);
}

/* Adds to the padding in a row; says whether it is too much. */
static __always_inline int too_much(struct ioam_work *w, __u32 octets)
{
	__u32 padding = w->padding + octets;

	w->padding = padding;
	return padding > LONGEST_PADDING;
}

/* Goes to the next header of options, past Routing headers; says whether there is one. */
static __always_inline int next_header(struct ioam_work *w)
{
	__u32 i = w->header;

#pragma clang loop unroll(disable)
	for (__u32 n = 0; n < HEADERS && i < w->headers && w->type[i & (HEADERS - 1)] == NEXTHDR_ROUTING; n++) {
		w->kept++;
		i++;
	}
	if (i >= w->headers)
		return 0;
	w->header = i + 1;
	w->at = w->start[i & (HEADERS - 1)] + 2;
	w->end = w->stop[i & (HEADERS - 1)];
	w->padding = 0;
	return 1;
}

/* The option or padding that is next in in. */
__attribute__((noinline)) int next_option(struct __sk_buff *skb)
{
	struct ioam_work *w = work();
	__u32 at, type, length;

	if (!w || (w->at >= w->end && !next_header(w)))
		return DONE;
	at = w->at;
	type = octet(&w->in, at);
	if (type == OPTION_PAD1) {
		w->at = at + 1;
		return too_much(w, 1) ? IOAM_PADDING : IOAM_GOOD;
	}
	length = octet(&w->in, at + 1);
	w->at = at + 2 + length;
	if (w->at > w->end)
		return IOAM_OPTION;
	if (type == OPTION_PADN)
		return too_much(w, 2 + length) ? IOAM_PADDING : IOAM_GOOD;
	w->padding = 0;
	if (type == OPTION_MUTABLE || type == OPTION_IMMUTABLE)
		return option(skb, at, length);
	w->kept++;
	return IOAM_GOOD;
}

static __always_inline int has_options(__u32 type)
{
	return type == NEXTHDR_HOP || type == NEXTHDR_DEST;
}

/* Whether a header of a type is read behind so many others. */
static __always_inline int walks(__u32 type, int nth, __u32 border)
{
	if (type == NEXTHDR_HOP)
		return !nth;
	return border ? extension_is(type) : extension_in(type, EXTENSION_REPEATED);
}

/* Reads the header of a type that follows so many octets into in; returns where the next begins, or
 * a negative mistake. */
static __always_inline int take(struct __sk_buff *skb, struct ioam_work *w, __u32 type, __u32 at)
{
	__u32 length, from = w->l2 + IP6_SIZE + at, there = skb->len - from;
	__u8 *to = (__u8 *)w->in.words + below(LONGEST_HEADER, at);

	if (at >= IOAM_OCTETS - LONGEST_HEADER) /* or the longest would not fit */
		return -IOAM_MANY;
	if (from + 8 > skb->len)
		return -IOAM_HEADER;
	if (there > GLANCE)
		there = GLANCE;
	if (bpf_skb_load_bytes(skb, from, to, upto(GLANCE, there)))
		return -IOAM_HEADER;
	w->next = octet(&w->in, at);
	length = extension_length(type, octet(&w->in, at + 1));
	if (length > there && bpf_skb_load_bytes(skb, from, to, upto(LONGEST_HEADER, length)))
		return -IOAM_HEADER;
	return at + length;
}

/* Forgets the packet before. */
static __always_inline void begin(struct ioam_work *w)
{
	w->headers = w->total = w->ending = w->kept = w->options = w->dirty = w->sampled = w->proof = w->strict = w->put_off = w->active = 0;
}

/*
 * Most packets of a domain have a Hop-by-Hop header alone, with an IOAM option alone, behind
 * padding of 2 octets or 6.
 */
struct alone {
	__u8 *option; /* its head of 12 octets is in the packet's linear part */
	__u32 at;     /* octets of the header before it */
	__u32 length; /* octets behind its length */
	__u32 total;  /* of the header */
	__u8 next;
};

/* Whether a packet of IPv6 is such a one. */
static __always_inline int is_alone(struct __sk_buff *skb, __u32 l2, struct alone *a)
{
	__u8 *head = BEHIND((__u8 *)(long)skb->data, l2 + IP6_SIZE), *end = (__u8 *)(long)skb->data_end;

	if (head + 24 > end || walks(head[0], 1, 0) || head[2] != OPTION_PADN || head[3] & ~4)
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
 * Reads such a header as headers() does and does to its option what process() would, without
 * walking; returns a mistake, or DONE where the packet is another one.
 */
__attribute__((noinline)) int process_one(struct __sk_buff *skb, __u32 next)
{
	struct ioam_work *w = work();
	struct alone a;

	if (!w || next != NEXTHDR_HOP || !is_alone(skb, w->l2 & 15, &a))
		return DONE;
	if (bpf_skb_load_bytes(skb, (w->l2 & 15) + IP6_SIZE, w->in.words, upto(LONGEST_HEADER, a.total)))
		return DONE;
	begin(w);
	w->next = a.next;
	w->total = w->stop[0] = a.total;
	w->start[0] = w->type[0] = 0;
	w->headers = 1;
	if (w->at_exit)
		describe(skb, w);
	return option(skb, a.at, a.length);
}

/*
 * Reads the extension headers from the one of the type given on, without looking into them. At the
 * domain's border also those that only the destination reads, and behind them. Returns a mistake.
 */
__attribute__((noinline)) int headers(struct __sk_buff *skb, __u32 type, __u32 border)
{
	struct ioam_work *w = work();
	__u32 fragment = 0;

	if (!w)
		return IOAM_GOOD;
	begin(w);
	w->next = type;
	for (int i = 0; i < HEADERS; i++) {
		int end;

		type = w->next;
		if (!walks(type, i, border))
			return IOAM_GOOD;
		end = take(skb, w, type, w->total);
		/* Nothing follows that could hold options; HIP is as long as a packet, and cut as one. */
		if (extension_ends(type, w->next))
			return IOAM_GOOD;
		/* A first fragment has all headers (RFC 7112): in others none can be looked at. */
		if (end < 0)
			return fragment ? IOAM_MANY : -end;
		if (type == NEXTHDR_FRAGMENT) {
			if (extension_later(octet(&w->in, w->total + 2), octet(&w->in, w->total + 3)))
				return IOAM_GOOD; /* not the first: no headers follow */
			fragment = 1;
		}
		w->start[i] = w->total;
		w->type[i] = type;
		w->headers = i + 1;
		w->stop[i] = w->total = end;
	}
	return walks(w->next, HEADERS, border) ? IOAM_MANY : IOAM_GOOD;
}

/* Counts the option that is next if it is IOAM, well-formed or not. */
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

/* Counts the IOAM options of a header that lies in in. */
__attribute__((noinline)) int options_of(__u32 start, __u32 end)
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

/* Whether there is an IOAM option in the headers that were read. */
static __always_inline int options_only(struct ioam_work *w)
{
	for (__u32 i = 0; i < HEADERS && i < w->headers; i++)
		if (has_options(w->type[i]) && options_of(w->start[i], w->stop[i]))
			return IOAM_MANY;
	return IOAM_GOOD;
}

/* Looks into the headers that were read. */
__attribute__((noinline)) int process(struct __sk_buff *skb)
{
	struct ioam_work *w = work();

	if (!w)
		return IOAM_GOOD;
	w->at = w->end = w->header = 0;
	if (w->at_exit)
		__builtin_memset(w->ended, 0, sizeof(w->ended));
	for (int i = 0; i < IOAM_TLVS; i++) {
		int result = next_option(skb);

		if (result)
			return result == DONE ? IOAM_GOOD : result;
	}
	return IOAM_MANY;
}

#endif /* WEIR_IOAM_WALK_H */
