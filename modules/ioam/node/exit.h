/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Removes the options that end here. Remaining options move to the front of the header copy and
 * keep their alignment, with minimal padding, because Linux drops packets with more than 7 bytes of
 * padding in a row. No option moves backwards, so none is overwritten before it moved.
 */
#ifndef WEIR_IOAM_EXIT_H
#define WEIR_IOAM_EXIT_H

#include "maps.h"
#include "walk.h"

#define MAX_COPY 264

/* Moves bytes of in to an equal or lower offset. */
__attribute__((noinline)) int move_bytes(__u32 from, __u32 to, __u32 length)
{
	struct ioam_work *w = work();

	if (!w)
		return 0;
	for (__u32 i = 0; from != to && i < MAX_COPY && i < length; i++)
		put_octet(&w->in, to + i, octet(&w->in, from + i));
	return 0;
}

/* Writes padding up to the next offset with this remainder modulo 8; returns that offset. */
static __always_inline __u32 write_padding(struct ioam_work *w, __u32 at, __u32 remainder)
{
	__u32 gap = (remainder - at) & 7;

	for (__u32 i = 2; i < 7 && i < gap; i++)
		put_octet(&w->in, at + i, 0);
	if (gap > 1)
		put_octet(&w->in, at + 1, gap - 2);
	if (gap)
		put_octet(&w->in, at, gap == 1 ? OPTION_PAD1 : OPTION_PADN);
	return at + gap;
}

/* Reports whether the option at a byte offset of in ends here. */
static __always_inline int ends_here(const struct ioam_work *w, __u32 at)
{
	return !(at & 3) && w->ended[at >> 7 & (IOAM_WORDS / 32 - 1)] >> (at >> 2 & 31) & 1;
}

/* Moves the next option, if it stays. */
__attribute__((noinline)) int move_option(void)
{
	struct ioam_work *w = work();
	__u32 at, type, length, out;

	if (!w || w->at >= w->end)
		return DONE;
	at = w->at;
	type = octet(&w->in, at);
	length = type == OPTION_PAD1 ? 1 : octet(&w->in, at + 1) + 2U;
	w->at = at + length;
	if (type == OPTION_PAD1 || type == OPTION_PADN || ends_here(w, at))
		return IOAM_GOOD;
	out = write_padding(w, w->to, at & 7);
	move_bytes(at, out, length);
	w->to = out + length;
	return IOAM_GOOD;
}

/* Moves the remaining options of a header; returns their end, or to if none remain. */
__attribute__((noinline)) int compact_header(__u32 start, __u32 end, __u32 to)
{
	struct ioam_work *w = work();
	__u32 out;

	if (!w)
		return to;
	w->at = start + 2;
	w->end = end;
	w->to = to + 2;
	for (int i = 0; i < IOAM_TLVS; i++)
		if (move_option())
			break;
	if (w->to == to + 2)
		return to;
	out = write_padding(w, w->to, 0);
	put_octet(&w->in, to + 1, (out - to) / 8 - 1);
	return out;
}

/* Joins the remaining headers; returns their length in bytes, and the type of the first one. */
static __always_inline int rebuild_headers(struct ioam_work *w, __u8 *first)
{
	__u32 to = 0, link = ~0U;

	for (__u32 i = 0; i < MAX_HEADERS && i < w->headers; i++) {
		__u32 start = w->start[i], end = w->stop[i], behind;

		if (w->type[i] == NEXTHDR_ROUTING) {
			if (end - start > MAX_COPY)
				return -1;
			move_bytes(start, to, end - start);
			behind = to + end - start;
		} else {
			behind = compact_header(start, end, to);
		}
		if (behind == to)
			continue;
		if (link == ~0U)
			*first = w->type[i];
		else
			put_octet(&w->in, link, w->type[i]);
		link = to;
		to = behind;
	}
	if (link == ~0U)
		*first = w->next;
	else
		put_octet(&w->in, link, w->next);
	return to;
}

/* Stores payload length and next header of the IPv6 header. */
static __always_inline int set_lengths(struct __sk_buff *skb, __u32 l2, __u32 length, __u8 next, __u64 flags)
{
	__u8 head[3] = {length >> 8, length, next};

	return bpf_skb_store_bytes(skb, l2 + 4, head, sizeof(head), flags);
}

/* Removes the marked options; returns 0 if the packet is now unusable. */
static __always_inline int remove_options(struct __sk_buff *skb, struct ioam_work *w)
{
	__u32 before = w->total, l2 = w->l2;
	__u8 first = w->next;
	int after = w->kept ? rebuild_headers(w, &first) : 0;
	const __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;

	if (after < 0 || after > OCTET_MASK || (__u32)after > before)
		return 0;
	if ((__u32)after < before && bpf_skb_adjust_room(skb, after - (int)before, BPF_ADJ_ROOM_NET, flags))
		return 0;
	if (after && bpf_skb_store_bytes(skb, l2 + IP6_SIZE, w->in.words, bounded_length(IOAM_OCTETS, after), BPF_F_RECOMPUTE_CSUM))
		return 0;
	/* BIG TCP packets have no payload length. */
	return !set_lengths(skb, l2, w->payload ? w->payload + after - before : 0, first, BPF_F_RECOMPUTE_CSUM);
}

#endif /* WEIR_IOAM_EXIT_H */
