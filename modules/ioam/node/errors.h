/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMPv6 errors quote a packet with its Hop-by-Hop header. In errors that leave the domain, IOAM
 * data in the quotation becomes zero, and the MTU of Packet Too Big is reduced by the options,
 * because the sender's packet is shorter by them. Below an MTU of 1280 path.h applies instead. The
 * same happens to Packet Too Big for this host, because its packets get their options later too.
 */
#ifndef WEIR_IOAM_ERRORS_H
#define WEIR_IOAM_ERRORS_H

#include "cache.h"
#include "exit.h"
#include "maps.h"
#include "node_data.h"
#include "path.h"
#include "walk.h"

#define NEXTHDR_ICMP 58
#define ICMP_SIZE 8
#define ICMP_CHECKSUM 2
#define ICMP_MTU 4
#define ICMP_TOO_BIG 2
#define ICMP_FIRST_QUERY 128
#define CHUNK 128 /* bytes per checksum call; kernels limit it to 512 */

/* Clears bytes of in. */
__attribute__((noinline)) int clear_bytes(__u32 at, __u32 length)
{
	struct ioam_work *w = work();

	if (!w)
		return 0;
	for (__u32 i = 0; i < MAX_COPY && i < length; i++)
		put_octet(&w->in, at + i, 0);
	return 0;
}

/* Clears the next option if it is IOAM. */
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
		clear_bytes(at + 2, length - 2);
	return IOAM_GOOD;
}

/*
 * Adds the checksum of in to seed, or subtracts it. Bytes behind the header count too, but cancel.
 */
__attribute__((noinline)) __u32 checksum_of(__u32 sign, __u32 seed)
{
	struct ioam_work *w = work();

	if (!w)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_HEADER / CHUNK && i * CHUNK < w->end; i++) {
		__u32 *chunk = &w->in.words[i * CHUNK / 4];

		seed = sign ? bpf_csum_diff(0, 0, chunk, CHUNK, seed) : bpf_csum_diff(chunk, CHUNK, 0, 0, seed);
	}
	return seed;
}

/* Reports whether the quoted packet at an offset is of a tunnel that begins at this node. */
static __always_inline int is_own_tunnel(struct __sk_buff *skb, const struct ioam_settings *node, __u32 quoted)
{
	__u64 from[2];

	if (bpf_skb_load_bytes(skb, quoted + 8, from, sizeof(from)))
		return 0;
	return (from[0] | from[1]) && from[0] == node->address[0] && from[1] == node->address[1];
}

/*
 * Reduces the MTU of a Packet Too Big by the length of the options. If that is below the minimum,
 * or of a tunnel, stores the path's MTU instead.
 */
static __always_inline void correct_mtu(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, __u32 icmp, __u32 octets)
{
	__u32 before, after, quoted = icmp + ICMP_SIZE;
	__u8 type;

	if (bpf_skb_load_bytes(skb, icmp, &type, 1) || type != ICMP_TOO_BIG || bpf_skb_load_bytes(skb, icmp + ICMP_MTU, &before, 4))
		return;
	after = bpf_ntohl(before);
	if (after < octets + MIN_MTU || is_own_tunnel(skb, node, quoted)) {
		if (!bpf_skb_load_bytes(skb, quoted + 24, w->address, sizeof(w->address)))
			store_path(w, after);
		return;
	}
	after = bpf_htonl(after - octets);
	bpf_skb_store_bytes(skb, icmp + ICMP_MTU, &after, 4, 0);
	bpf_l4_csum_replace(skb, icmp + ICMP_CHECKSUM, before, after, 4);
}

/*
 * Clears the IOAM options of one quoted options header; length may be less than its own if the
 * quotation is cut. Adds their length to w->total. Returns 1 if there were any.
 */
__attribute__((noinline)) int clear_header(struct __sk_buff *skb, __u32 icmp, __u32 header, __u32 length)
{
	struct ioam_work *w = work();
	__u32 sum;

	if (!w || length < 4 || length > MAX_HEADER || bpf_skb_load_bytes(skb, header, w->in.words, bounded_length(MAX_HEADER, length)))
		return 0;
	w->at = 2;
	w->end = length;
	w->options = w->ending = w->kept = 0;
	sum = checksum_of(0, 0);
	for (int i = 0; i < IOAM_TLVS; i++)
		if (clear_option())
			break;
	if (!w->options)
		return 0;
	sum = checksum_of(1, sum);
	w->total += w->kept ? w->ending : w->end;
	bpf_l4_csum_replace(skb, icmp + ICMP_CHECKSUM, 0, sum, 0);
	bpf_skb_store_bytes(skb, header, w->in.words, bounded_length(MAX_HEADER, length), 0);
	return 1;
}

/* Clears IOAM options quoted by the ICMPv6 error behind the IPv6 header. */
__attribute__((noinline)) int clear_error(struct __sk_buff *skb, __u32 l2)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	__u32 icmp = l2 + IP6_SIZE, quoted = icmp + ICMP_SIZE, header = quoted + IP6_SIZE, found = 0;
	__u8 type, ip[8], head[4];

	if (!w || !node || bpf_skb_load_bytes(skb, icmp, &type, 1) || type >= ICMP_FIRST_QUERY || bpf_skb_load_bytes(skb, quoted, ip, sizeof(ip)))
		return 0;
	type = ip[6];
	w->total = 0;
	for (int i = 0; i < MAX_HEADERS; i++) {
		__u32 length;

		if (!is_walked(type, i, 1) || bpf_skb_load_bytes(skb, header, head, sizeof(head)))
			break;
		length = extension_length(type, head[1]);
		if (has_options(type)) {
			__u32 there = length;

			if (skb->len < header + length)
				there = (skb->len - header) & ~3U; /* the quotation is cut */
			found |= clear_header(skb, icmp, header, there);
		} else if (type == NEXTHDR_FRAGMENT && extension_later(head[2], head[3])) {
			break;
		}
		header += length;
		type = head[0];
	}
	if (!found)
		return 0;
	correct_mtu(skb, w, node, icmp, w->total);
	count(IOAM_ERROR_CLEARED);
	return 0;
}

/* Reports whether a received packet is for this host. */
static __always_inline int is_local(struct __sk_buff *skb, struct ioam_work *w, __u32 l2)
{
	struct bpf_fib_lookup *fib = (struct bpf_fib_lookup *)w->fib;
	long found;

	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = AF_IP6;
	fib->ifindex = skb->ifindex;
	if (bpf_skb_load_bytes(skb, l2 + 8, fib->ipv6_src, 32))
		return 0;
	found = bpf_fib_lookup(skb, fib, sizeof(*fib), BPF_FIB_LOOKUP_SKIP_NEIGH);
	return found == BPF_FIB_LKUP_RET_NOT_FWDED || found == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* Corrects a received Packet Too Big for this host. */
__attribute__((noinline)) int ingress_error(struct __sk_buff *skb, __u32 l2)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = node ? current_work(node) : 0;
	struct ioam_cached_interface *dev;
	__u8 type;

	l2 &= 15;
	if (!w || bpf_skb_load_bytes(skb, l2 + IP6_SIZE, &type, 1) || type != ICMP_TOO_BIG)
		return 0;
	dev = lookup_interface(w, skb->ifindex);
	if (dev->configured && dev->roles & IOAM_ROLE_INGRESS && is_local(skb, w, l2))
		clear_error(skb, l2);
	return 0;
}

#endif /* WEIR_IOAM_ERRORS_H */
