/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet at the hook of any device: its header is found whatever is in front of it.
 *
 * Include it after bpf/match.h.
 */
#ifndef WEIR_CLASS_PACKET_H
#define WEIR_CLASS_PACKET_H

#include "header.h"

#define MAPPED bpf_htonl(0xffff)

/*
 * Where the network header begins: behind an Ethernet header, with VLAN tags or without, or at
 * once. Programs are told where it is to be read, and not where it is to be written.
 */
static __always_inline int network_offset(struct __sk_buff *skb, const union header *ip)
{
	const __u32 offsets[] = {ETH_HLEN, 0, ETH_HLEN + 4, ETH_HLEN + 8};
	__u64 there[2];

#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (!bpf_skb_load_bytes(skb, offsets[i], there, sizeof(there)) && there[0] == ip->pair[0] && there[1] == ip->pair[1])
			return offsets[i];
	}
	return -1;
}

/* Both ends' addresses of a packet that was read. */
static __always_inline void addresses(const struct packet *p, struct match_prefix *to, struct match_prefix *from)
{
	const union header *ip = &p->ip;

	to->length = from->length = 128;
	if (p->version == 4) {
		to->address[0] = to->address[1] = from->address[0] = from->address[1] = 0;
		to->address[2] = from->address[2] = MAPPED;
		from->address[3] = ip->word[3];
		to->address[3] = ip->word[4];
		return;
	}
#pragma unroll
	for (int i = 0; i < 4; i++) {
		from->address[i] = ip->word[2 + i];
		to->address[i] = ip->word[6 + i];
	}
}

/* Reads the header and both ends' addresses; 0 for what is not IP. */
static __always_inline int read(struct __sk_buff *skb, struct packet *p, struct match_prefix *to, struct match_prefix *from)
{
	if (bpf_skb_load_bytes_relative(skb, 0, &p->ip, 20, BPF_HDR_START_NET))
		return 0;
	if (!parse(skb, p, 0, BPF_HDR_START_NET))
		return 0;
	addresses(p, to, from);
	return 1;
}

/* Writes the code point; 0 if it could. */
static __always_inline int write(struct __sk_buff *skb, const struct packet *p, __u8 tos)
{
	int at = network_offset(skb, &p->ip);

	if (at < 0)
		return 1;
	return write_at(skb, p, at, tos);
}

#endif
