//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tells a link's qdisc in which class a packet waits: by the DSCP of its outermost IP header, or,
 * where that is best effort's, of the first one within a tunnel, whose maker may not have copied
 * it (RFC 2983), if that is of less than best effort: anybody can send what looks like a tunnel,
 * and only the outer header is marked by who may. IPv4 and IPv6, with VLAN tags beside the packet
 * or in it; tunnels are IP in IP, GRE, and VXLAN at its port. What is not IP, and what cannot be
 * read, is best effort.
 *
 * links_classify is a filter of the qdisc's root, whose return value is the handle of the class's
 * queue. Where limits by delay hold the link's packets too, those of theirs wait in another one of
 * the class, which keeps departure times. It reads 10 octets of a packet that is in no tunnel, and
 * has no map. links_shadow, at the device's egress, counts what the classes would do.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/departs.h"

char links_license[] SEC("license") = "Dual BSD/GPL";

#define CODE_POINTS 64
#define IPIP 4
#define UDP 17
#define IPV6 41
#define GRE 47
#define DESTINATION_OPTIONS 60 /* which Linux puts into its IPv6 tunnels */
#define VXLAN_PORT 4789
#define IPV6_HEADER 40

/* DSCP to its class's handle; 0 is the qdisc's default class. Set when it is loaded. */
const volatile __u32 links_classes[CODE_POINTS];

/* The same for what is within a tunnel. */
const volatile __u32 links_within[CODE_POINTS];

/* The queues of what limits by delay hold: how much more their handles are, and best effort's. */
struct links_departing {
	__u32 more; /* 0 where there are none */
	__u32 fallback;
};

const volatile struct links_departing links_departing;

static __always_inline __u32 handle(const volatile __u32 *classes, int dscp)
{
	__u64 index = dscp;

	/* Verifiers of Linux 6.1 lose a bound that the compiler moves before a shift. */
	asm volatile("%0 &= 63" : "+r"(index));
	return classes[index];
}

/* The front of an IP header, as far as both versions are told by. */
struct front {
	__u8 octet[10];
};

/* Octets of the VLAN tags that are in the packet. */
static __always_inline __u32 behind_tags(struct __sk_buff *skb)
{
	__be16 type = skb->protocol, next[2];
	__u32 at = 0;

	/* Where a tag is in the packet, the network header may be before or behind it. */
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (bpf_skb_load_bytes_relative(skb, ETH_HLEN + at, next, sizeof(next), BPF_HDR_START_MAC))
			break;
		type = next[1];
		at += 4;
	}
	return at;
}

static __always_inline int dscp_of(const struct front *f)
{
	switch (f->octet[0] >> 4) {
	case 4:
		return f->octet[1] >> 2;
	case 6:
		return (f->octet[0] & 15) << 2 | f->octet[1] >> 6;
	}
	return -1;
}

/* What GRE's flags say of its length, or 0 for what is not IP within it. */
static __always_inline __u32 gre_length(struct __sk_buff *skb, __u32 at, enum bpf_hdr_start_off from)
{
	__be16 head[2];
	__u32 length = 4;

	if (bpf_skb_load_bytes_relative(skb, at, head, sizeof(head), from))
		return 0;
	if (head[0] & bpf_htons(0x8000))
		length += 4;
	if (head[0] & bpf_htons(0x2000))
		length += 4;
	if (head[0] & bpf_htons(0x1000))
		length += 4;
	if (head[1] == bpf_htons(ETH_P_TEB))
		return length + ETH_HLEN;
	return head[1] == bpf_htons(ETH_P_IP) || head[1] == bpf_htons(ETH_P_IPV6) ? length : 0;
}

static __always_inline __u32 vxlan_length(struct __sk_buff *skb, __u32 at, enum bpf_hdr_start_off from)
{
	__be16 port;

	if (bpf_skb_load_bytes_relative(skb, at + 2, &port, sizeof(port), from) || port != bpf_htons(VXLAN_PORT))
		return 0;
	return 8 + 8 + ETH_HLEN;
}

/* The DSCP of a packet within the one at this place; -1 where there is none. */
static __always_inline int inner(struct __sk_buff *skb, const struct front *f, __u32 at, enum bpf_hdr_start_off from)
{
	__u32 protocol, more;
	struct front within;
	__u8 option[2];

	if (f->octet[0] >> 4 == 4) {
		if ((f->octet[6] & 0x1f) || f->octet[7]) /* a fragment that is not the first */
			return -1;
		protocol = f->octet[9];
		at += (f->octet[0] & 15) * 4;
	} else {
		protocol = f->octet[6];
		at += IPV6_HEADER;
		if (protocol == DESTINATION_OPTIONS) {
			if (bpf_skb_load_bytes_relative(skb, at, option, sizeof(option), from))
				return -1;
			protocol = option[0];
			at += (option[1] + 1) * 8;
		}
	}
	switch (protocol) {
	case IPIP:
	case IPV6:
		more = 0;
		break;
	case GRE:
		more = gre_length(skb, at, from);
		if (!more)
			return -1;
		break;
	case UDP:
		more = vxlan_length(skb, at, from);
		if (!more)
			return -1;
		break;
	default:
		return -1;
	}
	if (bpf_skb_load_bytes_relative(skb, at + more, &within, sizeof(within), from))
		return -1;
	return dscp_of(&within);
}

/* The handle of a packet's class; 0 is best effort's. */
static __always_inline __u32 class_of(struct __sk_buff *skb)
{
	__u32 tags = behind_tags(skb), at = tags ? ETH_HLEN + tags : 0;
	enum bpf_hdr_start_off from = tags ? BPF_HDR_START_MAC : BPF_HDR_START_NET;
	struct front f;
	int dscp, found;

	if (bpf_skb_load_bytes_relative(skb, at, &f, sizeof(f), from))
		return 0;
	dscp = dscp_of(&f);
	if (!dscp) {
		found = inner(skb, &f, at, from);
		if (found > 0)
			return handle(links_within, found);
	}
	return dscp < 0 ? 0 : handle(links_classes, dscp);
}

SEC("tc")
int links_classify(struct __sk_buff *skb)
{
	__u32 class = class_of(skb);

	if (!links_departing.more || skb->tc_index != DEPARTS)
		return class;
	return class ? class + links_departing.more : links_departing.fallback;
}

#include "shadow.h"

SEC("tc")
int links_shadow(struct __sk_buff *skb)
{
	shadow_count(skb, class_of(skb));
	return TC_ACT_UNSPEC;
}
