/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The IP header of a packet at a device's hook: what is read of it, and its DSCP written, with
 * IPv4's checksum corrected by the difference (RFC 1624). ECN's two bits are the caller's to keep.
 */
#ifndef WEIR_CLASS_HEADER_H
#define WEIR_CLASS_HEADER_H

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

/* Reads what the header says of a packet whose first 20 octets are there; 0 if it is not IP. */
static __always_inline int parse(struct __sk_buff *skb, struct packet *p, __u32 at, enum bpf_hdr_start_off from)
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

/* Writes the code point of a packet whose header begins there; 0 if it could. */
static __always_inline int write_at(struct __sk_buff *skb, const struct packet *p, __u32 at, __u8 tos)
{
	return p->version == 4 ? write4(skb, at, &p->ip, tos) : write6(skb, at, &p->ip, tos);
}

#endif
