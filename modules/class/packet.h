/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet at the hook of any device, with any link-layer header.
 *
 * Include it after bpf/match.h.
 */
#ifndef WEIR_CLASS_PACKET_H
#define WEIR_CLASS_PACKET_H

#include "header.h"

#define MAPPED bpf_htonl(0xffff)

/*
 * Returns the offset of the network header: after an Ethernet header with at most two VLAN tags,
 * or 0. The kernel has helpers to read relative to the network header, but not to write.
 */
static __always_inline int find_network_header(struct __sk_buff *skb, const union header *ip)
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

/* Copies the addresses of a parsed packet. */
static __always_inline void load_addresses(const struct packet *p, struct match_prefix *to, struct match_prefix *from)
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

/* Parses the header and both addresses; 0 if the packet is not IP. */
static __always_inline int parse_packet(struct __sk_buff *skb, struct packet *p, struct match_prefix *to, struct match_prefix *from)
{
	if (bpf_skb_load_bytes_relative(skb, 0, &p->ip, 20, BPF_HDR_START_NET))
		return 0;
	if (!parse_ip(skb, p, 0, BPF_HDR_START_NET))
		return 0;
	load_addresses(p, to, from);
	return 1;
}

/* Writes the type of service; 0 on success. */
static __always_inline int write_tos(struct __sk_buff *skb, const struct packet *p, __u8 tos)
{
	int at = find_network_header(skb, &p->ip);

	if (at < 0)
		return 1;
	return write_tos_at(skb, p, at, tos);
}

#endif
