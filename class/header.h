/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The IP header of a packet at a device's hook: read wherever it is, and its DSCP written, with
 * IPv4's checksum corrected by the difference (RFC 1624). ECN's two bits are the caller's to keep.
 *
 * Include it after bpf/match.h.
 */
#ifndef WEIR_CLASS_HEADER_H
#define WEIR_CLASS_HEADER_H

#define MAPPED bpf_htonl(0xffff)
#define CHECKSUM 10 /* octet of IPv4's header */

/* The part of an IP header that is looked at. */
union header {
	__u8 octet[40];
	__u16 half[20];
	__u32 word[10];
	__u64 pair[5];
};

/* A packet, as its header says. */
struct packet {
	union header ip;
	__u32 version;
	__u32 octets;
	__u8 tos; /* IPv4's type of service, IPv6's traffic class: DSCP and ECN */
};

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
	union header *ip = &p->ip;

	if (bpf_skb_load_bytes_relative(skb, 0, ip, 20, BPF_HDR_START_NET))
		return 0;
	p->version = ip->octet[0] >> 4;
	if (p->version == 4) {
		p->octets = bpf_ntohs(ip->half[1]);
		p->tos = ip->octet[1];
	} else if (p->version == 6 && !bpf_skb_load_bytes_relative(skb, 0, ip, 40, BPF_HDR_START_NET)) {
		p->octets = 40 + bpf_ntohs(ip->half[2]);
		p->tos = ip->octet[0] << 4 | ip->octet[1] >> 4;
	} else {
		return 0;
	}
	addresses(p, to, from);
	return 1;
}

/* Writes the code point into IPv4's octet of type of service; 0 if it could. */
static __always_inline int write4(struct __sk_buff *skb, __u32 at, const union header *ip, __u8 tos)
{
	__u16 old = bpf_htons((__u16)ip->octet[0] << 8 | ip->octet[1]), new = bpf_htons((__u16)ip->octet[0] << 8 | tos);

	if (bpf_l3_csum_replace(skb, at + CHECKSUM, old, new, sizeof(new)))
		return 1;
	return bpf_skb_store_bytes(skb, at + 1, &tos, sizeof(tos), 0) != 0;
}

/* Writes it into IPv6's traffic class, which lies in two octets. */
static __always_inline int write6(struct __sk_buff *skb, __u32 at, const union header *ip, __u8 tos)
{
	__u8 first[2] = {0x60 | tos >> 4, (__u8)(tos << 4) | (ip->octet[1] & 0x0f)};

	return bpf_skb_store_bytes(skb, at, first, sizeof(first), BPF_F_RECOMPUTE_CSUM) != 0;
}

/* Writes the code point; 0 if it could. */
static __always_inline int write(struct __sk_buff *skb, const struct packet *p, __u8 tos)
{
	int at = network_offset(skb, &p->ip);

	if (at < 0)
		return 1;
	return p->version == 4 ? write4(skb, at, &p->ip, tos) : write6(skb, at, &p->ip, tos);
}

#endif
