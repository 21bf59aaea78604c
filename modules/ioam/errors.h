/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMPv6 errors quote the packet that they are about, with its Hop-by-Hop header. Where one leaves
 * the domain, what IOAM options in the quotation hold is set to zero, and the MTU of Packet Too Big
 * becomes that of a packet without them: else the sender would learn one that it already obeys.
 */
#ifndef WEIR_IOAM_ERRORS_H
#define WEIR_IOAM_ERRORS_H

#define NEXTHDR_ICMP 58
#define ICMP_SIZE 8
#define ICMP_CHECKSUM 2
#define ICMP_MTU 4
#define ICMP_TOO_BIG 2
#define ICMP_FIRST_QUERY 128
#define CHUNK 128 /* octets of a checksum at a time: kernels take 512 at most */
#define LEAST_MTU 1280

/* Sets octets of in to zero. */
__attribute__((noinline)) int zero(__u32 at, __u32 length)
{
	struct ioam_work *w = work();

	if (!w)
		return 0;
	for (__u32 i = 0; i < LONGEST_COPY && i < length; i++)
		put_octet(&w->in, at + i, 0);
	return 0;
}

/* Sets the option that is next to zero if it is IOAM. */
__attribute__((noinline)) int clear_option(void)
{
	struct ioam_work *w = work();
	__u32 at, type, length;

	if (!w || w->at >= w->end)
		return DONE;
	at = w->at;
	type = octet(&w->in, at);
	length = type == OPTION_PAD1 ? 1 : octet(&w->in, at + 1) + 2U;
	w->at = at + length;
	if (type != OPTION_MUTABLE && type != OPTION_IMMUTABLE) {
		w->kept += type != OPTION_PAD1 && type != OPTION_PADN;
		return IOAM_GOOD;
	}
	w->options++;
	w->ending += length;
	if (at + length > w->end)
		length = w->end - at;
	if (length > 2)
		zero(at + 2, length - 2);
	return IOAM_GOOD;
}

/* The sum of what lies in in, added to another; what lies behind the header counts as well. */
__attribute__((noinline)) __u32 sum_of(__u32 sign, __u32 seed)
{
	struct ioam_work *w = work();

	if (!w)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LONGEST_HEADER / CHUNK && i * CHUNK < w->end; i++) {
		__u32 *chunk = &w->in.words[i * CHUNK / 4];

		seed = sign ? bpf_csum_diff(0, 0, chunk, CHUNK, seed) : bpf_csum_diff(chunk, CHUNK, 0, 0, seed);
	}
	return seed;
}

/* Corrects the MTU of a Packet Too Big for so many octets of options. */
static __always_inline void spare(struct __sk_buff *skb, __u32 icmp, __u32 octets)
{
	__u32 before, after;
	__u8 type;

	if (bpf_skb_load_bytes(skb, icmp, &type, 1) || type != ICMP_TOO_BIG || bpf_skb_load_bytes(skb, icmp + ICMP_MTU, &before, 4))
		return;
	after = bpf_ntohl(before);
	if (after < octets + LEAST_MTU)
		return;
	after = bpf_htonl(after - octets);
	bpf_skb_store_bytes(skb, icmp + ICMP_MTU, &after, 4, 0);
	bpf_l4_csum_replace(skb, icmp + ICMP_CHECKSUM, before, after, 4);
}

/*
 * Clears IOAM in a header of options that an ICMPv6 message quotes at an octet, of so many octets
 * as there are; adds to w->total what Packet Too Big is to be corrected by. Returns what was found.
 */
__attribute__((noinline)) int clear_header(struct __sk_buff *skb, __u32 icmp, __u32 header, __u32 length)
{
	struct ioam_work *w = work();
	__u32 sum;

	if (!w || length < 4 || length > LONGEST_HEADER || bpf_skb_load_bytes(skb, header, w->in.words, upto(LONGEST_HEADER, length)))
		return 0;
	w->at = 2;
	w->end = length;
	w->options = w->ending = w->kept = 0;
	sum = sum_of(0, 0);
	for (int i = 0; i < IOAM_TLVS; i++)
		if (clear_option())
			break;
	if (!w->options)
		return 0;
	sum = sum_of(1, sum);
	w->total += w->kept ? w->ending : w->end;
	bpf_l4_csum_replace(skb, icmp + ICMP_CHECKSUM, 0, sum, 0);
	bpf_skb_store_bytes(skb, header, w->in.words, upto(LONGEST_HEADER, length), 0);
	return 1;
}

/* Clears IOAM in the quotation of an ICMPv6 error that is behind an IPv6 header at an octet. */
__attribute__((noinline)) int clear_error(struct __sk_buff *skb, __u32 l2)
{
	struct ioam_work *w = work();
	__u32 icmp = l2 + IP6_SIZE, quoted = icmp + ICMP_SIZE, header = quoted + IP6_SIZE, found = 0;
	__u8 type, ip[8], head[4];

	if (!w || bpf_skb_load_bytes(skb, icmp, &type, 1) || type >= ICMP_FIRST_QUERY || bpf_skb_load_bytes(skb, quoted, ip, sizeof(ip)))
		return 0;
	type = ip[6];
	w->total = 0;
	for (int i = 0; i < HEADERS; i++) {
		__u32 length;

		if (!walks(type, i, 1) || bpf_skb_load_bytes(skb, header, head, sizeof(head)))
			break;
		length = extension_length(type, head[1]);
		if (has_options(type)) {
			__u32 there = length;

			if (skb->len < header + length)
				there = (skb->len - header) & ~3U; /* cut off */
			found |= clear_header(skb, icmp, header, there);
		} else if (type == NEXTHDR_FRAGMENT && extension_later(head[2], head[3])) {
			break;
		}
		header += length;
		type = head[0];
	}
	if (!found)
		return 0;
	spare(skb, icmp, w->total);
	count(IOAM_ERROR_CLEARED);
	return 0;
}

#endif /* WEIR_IOAM_ERRORS_H */
