//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A way through a device to a peer in a namespace, as if the peer were behind the device:
 *
 *   socket -> hooks -> device, egress --detour_out--> veth === veth of the peer
 *   socket <- hooks <- device, ingress <--detour_in-- veth === veth of the peer
 *
 * A packet has left the stack when it reaches the device's egress, and has not yet come in when it
 * leaves the veth's ingress, so sockets, routes and cgroups see the device alone. Only the peer's
 * packets are moved; none of them reaches the link.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char detour_license[] SEC("license") = "Dual BSD/GPL";

#define NEXT TC_ACT_UNSPEC /* the programs of others */

/* Of one detour. */
struct detour_way {
	__u32 device;            /* index */
	__u32 veth;              /* index of this namespace's end */
	__u8 peer4[4], peer6[16]; /* the peer's addresses */
	__u8 device_mac[ETH_ALEN], veth_mac[ETH_ALEN], peer_mac[ETH_ALEN];
	__u16 ethernet; /* whether frames on the device have an Ethernet header */
};

const volatile struct detour_way way;

/* Compares so many octets; both are read-only, so that they are read one by one. */
static __always_inline int same(const __u8 *found, const volatile __u8 *want, int octets)
{
	for (int i = 0; i < octets; i++)
		if (found[i] != want[i])
			return 0;
	return 1;
}

/* Whether the address at this offset of the network header is the peer's. */
static __always_inline int of_peer(struct __sk_buff *skb, __u32 offset4, __u32 offset6)
{
	__u8 address[16];

	if (skb->protocol == bpf_htons(ETH_P_IP))
		return !bpf_skb_load_bytes_relative(skb, offset4, address, 4, BPF_HDR_START_NET) && same(address, way.peer4, 4);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return !bpf_skb_load_bytes_relative(skb, offset6, address, 16, BPF_HDR_START_NET) && same(address, way.peer6, 16);
	return 0;
}

static __always_inline void copy(__u8 *to, const volatile __u8 *mac)
{
	for (int i = 0; i < ETH_ALEN; i++)
		to[i] = mac[i];
}

SEC("tc")
int detour_out(struct __sk_buff *skb)
{
	struct ethhdr ethernet = {.h_proto = skb->protocol};

	if (!of_peer(skb, __builtin_offsetof(struct iphdr, daddr), __builtin_offsetof(struct ipv6hdr, daddr)))
		return NEXT;
	copy(ethernet.h_dest, way.peer_mac);
	copy(ethernet.h_source, way.veth_mac);
	if (!way.ethernet && bpf_skb_change_head(skb, sizeof(ethernet), 0))
		return TC_ACT_SHOT;
	if (bpf_skb_store_bytes(skb, 0, &ethernet, sizeof(ethernet), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(way.veth, 0);
}

SEC("tc")
int detour_in(struct __sk_buff *skb)
{
	__u8 mac[ETH_ALEN];

	if (!of_peer(skb, __builtin_offsetof(struct iphdr, saddr), __builtin_offsetof(struct ipv6hdr, saddr)))
		return NEXT;
	copy(mac, way.device_mac);
	if (way.ethernet && bpf_skb_store_bytes(skb, 0, mac, sizeof(mac), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(way.device, BPF_F_INGRESS);
}
