/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the IP header of a packet at a device's hook, and writes its DSCP. The IPv4 checksum is
 * updated incrementally (RFC 1624). The caller preserves the two ECN bits.
 */
#ifndef WEIR_CLASS_HEADER_H
#define WEIR_CLASS_HEADER_H

#define CHECKSUM 10 /* byte offset in the IPv4 header */

/* The first bytes of an IP header. */
union header {
	__u8 octet[40];
	__u16 half[20];
	__u32 word[10];
	__u64 pair[5];
};

/* A parsed packet. */
struct packet {
	union header ip;
	__u32 version;
	__u32 octets; /* bytes from the IP header on */
	__u8 tos;     /* IPv4 type of service or IPv6 traffic class: DSCP and ECN */
};

/* Writes the IPv4 type of service; 0 on success. */
static __always_inline int write_tos_ipv4(struct __sk_buff *skb, __u32 at, const union header *ip, __u8 tos)
{
	__u16 old = bpf_htons((__u16)ip->octet[0] << 8 | ip->octet[1]), new = bpf_htons((__u16)ip->octet[0] << 8 | tos);

	if (bpf_l3_csum_replace(skb, at + CHECKSUM, old, new, sizeof(new)))
		return 1;
	return bpf_skb_store_bytes(skb, at + 1, &tos, sizeof(tos), 0) != 0;
}

/* Writes the IPv6 traffic class, which spans two bytes; 0 on success. */
static __always_inline int write_tos_ipv6(struct __sk_buff *skb, __u32 at, const union header *ip, __u8 tos)
{
	__u8 first[2] = {0x60 | tos >> 4, (__u8)(tos << 4) | (ip->octet[1] & 0x0f)};

	return bpf_skb_store_bytes(skb, at, first, sizeof(first), BPF_F_RECOMPUTE_CSUM) != 0;
}

/* Parses a packet with its first 20 bytes in p->ip; 0 if it is not IP. */
static __always_inline int parse_ip(struct __sk_buff *skb, struct packet *p, __u32 at, enum bpf_hdr_start_off from)
{
	union header *ip = &p->ip;

	p->version = ip->octet[0] >> 4;
	if (p->version == 4 && (ip->octet[0] & 15) >= 5) {
		p->octets = bpf_ntohs(ip->half[1]);
		p->tos = ip->octet[1];
	} else if (p->version == 6 && !bpf_skb_load_bytes_relative(skb, at, ip, 40, from)) {
		p->octets = 40 + bpf_ntohs(ip->half[2]);
		p->tos = ip->octet[0] << 4 | ip->octet[1] >> 4;
	} else {
		return 0;
	}
	return 1;
}

/* Writes the type of service of a packet with its IP header at offset at; 0 on success. */
static __always_inline int write_tos_at(struct __sk_buff *skb, const struct packet *p, __u32 at, __u8 tos)
{
	return p->version == 4 ? write_tos_ipv4(skb, at, &p->ip, tos) : write_tos_ipv6(skb, at, &p->ip, tos);
}

#endif
