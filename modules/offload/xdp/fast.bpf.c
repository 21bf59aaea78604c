//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Forwards packets as the kernel does, or leaves them to the kernel.
 *
 *     frame --> link (port, tag) --> header --> source --> decision of the destination --> hop
 *                  |                   |          |              |                          |
 *                  +-------------------+----------+----- CPU ----+--------------------------+
 *
 * Nothing is dropped here. Uncertain packets reach the kernel unchanged, which answers, counts or
 * drops them. A frame is changed only after the last check.
 *
 * The table is valid until the end of fast_lease, renewed by the follower of the kernel's routing.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/extension.h"
#include "fast.h"
#include "hop.h"
#include "lookup.h"
#include "../sample/sample.h"
#include "unfinished.h"

char fast_license[] SEC("license") = "Dual BSD/GPL";

/* Used here for the types in BTF. */
const volatile enum fast_bounds fast_bound = FAST_PORTS;
const volatile enum fast_flags fast_flag = FAST_IPV4;
const volatile enum fast_reason fast_why = FAST_OTHER;
const volatile enum fast_entry fast_child = FAST_CHILD;

#define ETHERTYPE_VLAN 0x8100
#define VLAN_ID 0x0fff
#define IP_FRAGMENT 0x3fff /* more fragments, or an offset */

struct tag {
	__be16 id;
	__be16 proto;
};

/* Test runs have lo as input device: they are not counted. */
static __always_inline int counts(const struct packet *p)
{
	const __u32 loopback = 1;

	return p->ctx->ingress_ifindex != loopback;
}

static __always_inline int leave(const struct packet *p, __u32 reason)
{
	struct fast_count *c = bpf_map_lookup_elem(&fast_left, &reason);

	if (c && counts(p)) {
		c->packets++;
		c->octets += p->frame;
	}
	return XDP_PASS;
}

static __always_inline int same_address(const __u8 *a, const __u8 *b)
{
	return *(const __u32 *)a == *(const __u32 *)b && *(const __u16 *)(a + 4) == *(const __u16 *)(b + 4);
}

/* RFC 1071 sum of a header of 20 bytes: 0xffff if correct. */
static __always_inline __u16 sum20(const struct iphdr *ip)
{
	const __u32 *w = (const __u32 *)ip;
	__u64 sum = (__u64)w[0] + w[1] + w[2] + w[3] + w[4];

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static __always_inline int is_own(__be32 address)
{
	__u32 bit = (bpf_ntohl(address) * 2654435761u) >> 16, word = bit / 64;
	const __u64 *b = bpf_map_lookup_elem(&fast_own, &word);

	return b && (*b >> (bit & 63) & 1);
}

/* Makes space for the hop's link layer, and removes padding. */
static __always_inline int resize(struct packet *p, const struct fast_hop *h)
{
	int grow = (h->vlan ? 4 : 0) - (p->vlan ? 4 : 0), surplus = p->frame - p->header - p->size;

	if (surplus > 0 && bpf_xdp_adjust_tail(p->ctx, -surplus))
		return -1;
	if (grow && bpf_xdp_adjust_head(p->ctx, -grow))
		return -1;
	p->data = (void *)(long)p->ctx->data;
	p->end = (void *)(long)p->ctx->data_end;
	return 0;
}

static __always_inline void readdress(struct ethhdr *eth, const struct fast_hop *h, __be16 proto)
{
	struct tag *tag = (struct tag *)(eth + 1);

	__builtin_memcpy(eth->h_dest, h->dst, 6);
	__builtin_memcpy(eth->h_source, h->src, 6);
	if (h->vlan) {
		eth->h_proto = bpf_htons(ETHERTYPE_VLAN);
		tag->id = bpf_htons(h->vlan);
		tag->proto = proto;
	} else {
		eth->h_proto = proto;
	}
}

static __always_inline int send(struct packet *p, __u32 decision, __u16 port)
{
	struct fast_count *c = bpf_map_lookup_elem(&fast_forwarded, &decision);

	if (c && counts(p)) {
		c->packets++;
		c->octets += p->frame;
	}
	return port == fast_port && fast_transmit ? XDP_TX : bpf_redirect_map(&fast_ports, port, 0);
}

static __always_inline int forward4(struct packet *p, const struct fast_input *in)
{
	struct iphdr *ip = p->data + p->header;
	__u32 decision, reason, check;
	const struct fast_hop *h;

	if ((void *)(ip + 1) > p->end)
		return leave(p, FAST_HEADER);
	p->size = bpf_ntohs(ip->tot_len);
	if (*(__u8 *)ip != 0x45 || p->size < sizeof(*ip) || p->size > p->frame - p->header || sum20(ip) != 0xffff)
		return leave(p, FAST_HEADER);
	if (ip->ttl <= 1)
		return leave(p, FAST_TTL);
	if (in->flags & FAST_UNFINISHED && !(ip->frag_off & bpf_htons(IP_FRAGMENT)) &&
	    unfinished(ip->protocol, ip + 1, p->end, sum_words(&ip->saddr, 2), p->size - sizeof(*ip)))
		return leave(p, FAST_CHECKSUM);
	const __u8 *source = (const __u8 *)&ip->saddr;

	if (source[0] == 0 || source[0] == 127 || source[0] >= 224)
		return leave(p, FAST_SOURCE);
	if (in->strict ? !believable(p, fast_lookup4(source), in->strict) : is_own(ip->saddr))
		return leave(p, FAST_SOURCE);
	if (sample_on && counts(p))
		sample4(ip->daddr);
	decision = fast_lookup4((const __u8 *)&ip->daddr);
	h = hop_of(p, decision, (__u64)ip->saddr << 32 | ip->daddr, &reason);
	if (!h)
		return leave(p, reason);
	if (resize(p, h))
		return leave(p, FAST_OTHER); /* no space for a tag */
	ip = p->data + (h->vlan ? 18 : 14);
	if ((void *)(ip + 1) > p->end)
		return XDP_DROP; /* unreachable: the verifier needs it */
	readdress(p->data, h, bpf_htons(ETH_P_IP));
	/* RFC 1624, as in the kernel. */
	check = ip->check + bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
	return send(p, decision, h->port);
}

static __always_inline int ordinary(__u8 next)
{
	/* Excludes headers that routers process, and unassigned ones. */
	return !extension_in(next, EXTENSION_REPEATED) && !extension_signals(next) && next < 253;
}

static __always_inline int forward6(struct packet *p, const struct fast_input *in)
{
	struct ipv6hdr *ip = p->data + p->header;
	const struct fast_hop *h;
	__u32 decision, reason;

	if ((void *)(ip + 1) > p->end)
		return leave(p, FAST_HEADER);
	p->size = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (ip->version != 6 || p->size > p->frame - p->header || !ordinary(ip->nexthdr))
		return leave(p, FAST_HEADER);
	if (ip->hop_limit <= 1)
		return leave(p, FAST_TTL);
	if (in->flags & FAST_UNFINISHED && unfinished(ip->nexthdr, ip + 1, p->end, sum_words(ip->saddr.s6_addr32, 8), p->size - sizeof(*ip)))
		return leave(p, FAST_CHECKSUM);
	const __u8 *source = ip->saddr.s6_addr;
	const __u32 *s = ip->saddr.s6_addr32, *d = ip->daddr.s6_addr32;

	/* Multicast, link-local, unspecified, loopback and IPv4-mapped. */
	if (source[0] == 0xff || (source[0] == 0xfe && (source[1] & 0xc0) == 0x80) || !(s[0] | s[1]))
		return leave(p, FAST_SOURCE);
	if (sample_on && counts(p))
		sample6(d);
	decision = fast_lookup6(ip->daddr.s6_addr);
	h = hop_of(p, decision, ((__u64)(s[0] ^ s[2] ^ d[1]) << 32 | (s[1] ^ d[0] ^ d[3])) ^ ((__u64)s[3] << 16 ^ d[2]), &reason);
	if (!h)
		return leave(p, reason);
	if (resize(p, h))
		return leave(p, FAST_OTHER);
	ip = p->data + (h->vlan ? 18 : 14);
	if ((void *)(ip + 1) > p->end)
		return XDP_DROP; /* unreachable */
	readdress(p->data, h, bpf_htons(ETH_P_IPV6));
	ip->hop_limit--;
	return send(p, decision, h->port);
}

SEC("xdp")
int fast_forward(struct xdp_md *ctx)
{
	struct packet p = {.ctx = ctx, .data = (void *)(long)ctx->data, .end = (void *)(long)ctx->data_end, .header = sizeof(struct ethhdr)};
	const struct ethhdr *eth = p.data;
	const struct tag *tag = p.data + sizeof(*eth);
	__u32 zero = 0, at = fast_port * FAST_VLANS;
	const struct fast_input *in;
	const __u64 *until;
	__be16 proto;

	p.frame = p.end - p.data;
	if ((void *)(tag + 1) > p.end)
		return leave(&p, FAST_OTHER);
	proto = eth->h_proto;
	if (proto == bpf_htons(ETHERTYPE_VLAN)) {
		p.vlan = bpf_ntohs(tag->id) & VLAN_ID;
		if (!p.vlan)
			return leave(&p, FAST_OTHER); /* priority tag */
		p.header += sizeof(*tag);
		proto = tag->proto;
		at += p.vlan;
	}
	in = bpf_map_lookup_elem(&fast_inputs, &at);
	if (!in || !in->flags || !same_address(eth->h_dest, in->mac))
		return leave(&p, FAST_OTHER);
	until = bpf_map_lookup_elem(&fast_lease, &zero);
	if (!until || bpf_ktime_get_coarse_ns() > *(const volatile __u64 *)until)
		return leave(&p, FAST_EXPIRED);
	if (proto == bpf_htons(ETH_P_IP) && in->flags & FAST_IPV4)
		return forward4(&p, in);
	if (proto == bpf_htons(ETH_P_IPV6) && in->flags & FAST_IPV6)
		return forward6(&p, in);
	return leave(&p, FAST_OTHER);
}
