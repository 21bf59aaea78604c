//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selects the class of a packet on a link.
 *
 *   outer DSCP is not 0                      the class of the outer DSCP
 *   outer DSCP 0, inner header of a tunnel   the class of the inner DSCP if it is less than best
 *                                            effort: tunnels may not copy the DSCP (RFC 2983), and
 *                                            any user can forge an inner header
 *   not IP, unreadable                       best effort
 *
 * IPv4 and IPv6, with VLAN tags in the packet or in its metadata; tunnels are IP in IP, GRE, and
 * VXLAN at its standard port.
 *
 * links_classify is a filter of the root qdisc and returns the handle of a class. Shaped packets
 * (mode: shape) wait in a second queue of the class, which keeps departure times. It reads 10 bytes
 * of a packet without a tunnel, and has no map. links_shadow, at the device's egress, counts
 * without any effect.
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
#define DESTINATION_OPTIONS 60 /* Linux adds them to IPv6 tunnels */
#define VXLAN_PORT 4789
#define IPV6_HEADER 40

/* DSCP to class handle; 0 is the qdisc's default class. Set at load time. */
const volatile __u32 links_classes[CODE_POINTS];

/* The same for inner packets of a tunnel. */
const volatile __u32 links_within[CODE_POINTS];

/* Queues of shaped packets. */
struct links_departing {
	__u32 more;     /* added to the handle of a class; 0 without such queues */
	__u32 fallback; /* handle for best effort */
};

const volatile struct links_departing links_departing;

static __always_inline __u32 lookup_handle(const volatile __u32 *classes, int dscp)
{
	__u64 index = dscp;

	/* The verifier of Linux 6.1 loses a bound that the compiler moves before a shift. */
	asm volatile("%0 &= 63" : "+r"(index));
	return classes[index];
}

/* The first bytes of an IPv4 or IPv6 header. */
struct front {
	__u8 octet[10];
};

/* Returns the length of the VLAN tags in the packet, in bytes. */
static __always_inline __u32 vlan_tags_length(struct __sk_buff *skb)
{
	__be16 type = skb->protocol, next[2];
	__u32 at = 0;

	/* With a tag in the packet, the network header may be before or after it. */
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

static __always_inline int parse_dscp(const struct front *f)
{
	switch (f->octet[0] >> 4) {
	case 4:
		return f->octet[1] >> 2;
	case 6:
		return (f->octet[0] & 15) << 2 | f->octet[1] >> 6;
	}
	return -1;
}

/* Returns the length of a GRE header from its flags; 0 unless its payload is IP. */
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

/* Returns the DSCP of the inner packet of a tunnel; -1 without one. */
static __always_inline int parse_inner_dscp(struct __sk_buff *skb, const struct front *f, __u32 at, enum bpf_hdr_start_off from)
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
	return parse_dscp(&within);
}

/* Returns the handle of a packet's class; 0 is best effort. */
static __always_inline __u32 lookup_class(struct __sk_buff *skb)
{
	__u32 tags = vlan_tags_length(skb), at = tags ? ETH_HLEN + tags : 0;
	enum bpf_hdr_start_off from = tags ? BPF_HDR_START_MAC : BPF_HDR_START_NET;
	struct front f;
	int dscp, found;

	if (bpf_skb_load_bytes_relative(skb, at, &f, sizeof(f), from))
		return 0;
	dscp = parse_dscp(&f);
	if (!dscp) {
		found = parse_inner_dscp(skb, &f, at, from);
		if (found > 0)
			return lookup_handle(links_within, found);
	}
	return dscp < 0 ? 0 : lookup_handle(links_classes, dscp);
}

SEC("tc")
int links_classify(struct __sk_buff *skb)
{
	__u32 class = lookup_class(skb);

	if (!links_departing.more || skb->tc_index != DEPARTS)
		return class;
	return class ? class + links_departing.more : links_departing.fallback;
}

#include "shadow.h"

SEC("tc")
int links_shadow(struct __sk_buff *skb)
{
	count_shadow(skb, lookup_class(skb));
	return TC_ACT_UNSPEC;
}
