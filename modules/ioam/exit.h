/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Takes what ends here out of a packet. What stays moves to the front in the copy of the headers,
 * each option at the alignment that it had, with no more padding than that needs: paddings of more
 * than 7 octets in a row make Linux drop a packet. Nothing moves back, so that nothing is
 * overwritten before it has moved.
 */
#ifndef WEIR_IOAM_EXIT_H
#define WEIR_IOAM_EXIT_H

#define LONGEST_COPY 264

/* Moves octets of in to a place that is not behind theirs. */
__attribute__((noinline)) int move(__u32 from, __u32 to, __u32 length)
{
	struct ioam_work *w = work();

	if (!w)
		return 0;
	for (__u32 i = 0; from != to && i < LONGEST_COPY && i < length; i++)
		put_octet(&w->in, to + i, octet(&w->in, from + i));
	return 0;
}

/* Writes padding that ends at a multiple of 8 and a remainder; returns its end. */
static __always_inline __u32 pad(struct ioam_work *w, __u32 at, __u32 remainder)
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

/* Whether an option at an octet of in ends here. */
static __always_inline int ends(const struct ioam_work *w, __u32 at)
{
	return !(at & 3) && w->ended[at >> 7 & (IOAM_WORDS / 32 - 1)] >> (at >> 2 & 31) & 1;
}

/* Moves the option that is next, if it stays. */
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
	if (type == OPTION_PAD1 || type == OPTION_PADN || ends(w, at))
		return IOAM_GOOD;
	out = pad(w, w->to, at & 7);
	move(at, out, length);
	w->to = out + length;
	return IOAM_GOOD;
}

/* Moves what stays of a header of options; returns where that ends, or would begin. */
__attribute__((noinline)) int compact(__u32 start, __u32 end, __u32 to)
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
	out = pad(w, w->to, 0);
	put_octet(&w->in, to + 1, (out - to) / 8 - 1);
	return out;
}

/* Joins what stays of all headers; returns its octets and the type of its first header. */
static __always_inline int rebuild(struct ioam_work *w, __u8 *first)
{
	__u32 to = 0, link = ~0U;

	for (__u32 i = 0; i < HEADERS && i < w->headers; i++) {
		__u32 start = w->start[i], end = w->stop[i], behind;

		if (w->type[i] == NEXTHDR_ROUTING) {
			if (end - start > LONGEST_COPY)
				return -1;
			move(start, to, end - start);
			behind = to + end - start;
		} else {
			behind = compact(start, end, to);
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

/* Corrects the IPv6 header for so many octets of payload, and another next header. */
static __always_inline int set_lengths(struct __sk_buff *skb, __u32 l2, __u32 length, __u8 next, __u64 flags)
{
	__u8 head[3] = {length >> 8, length, next};

	return bpf_skb_store_bytes(skb, l2 + 4, head, sizeof(head), flags);
}

/* Ends what was marked; says whether the packet is as it must be. */
static __always_inline int take_out(struct __sk_buff *skb, struct ioam_work *w)
{
	__u32 before = w->total, l2 = w->l2;
	__u8 first = w->next;
	int after = w->kept ? rebuild(w, &first) : 0;
	const __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;

	if (after < 0 || after > OCTET_MASK || (__u32)after > before)
		return 0;
	if ((__u32)after < before && bpf_skb_adjust_room(skb, after - (int)before, BPF_ADJ_ROOM_NET, flags))
		return 0;
	if (after && bpf_skb_store_bytes(skb, l2 + IP6_SIZE, w->in.words, upto(IOAM_OCTETS, after), BPF_F_RECOMPUTE_CSUM))
		return 0;
	return !set_lengths(skb, l2, w->payload + after - before, first, BPF_F_RECOMPUTE_CSUM);
}

#endif /* WEIR_IOAM_EXIT_H */
