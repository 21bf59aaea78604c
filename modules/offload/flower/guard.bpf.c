//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first action of filters in software. The rules behind it are valid only until the end of a
 * lease that the follower of the kernel's routing renews. It samples destinations, for a budget.
 *
 *     frame --> filter of chain 0 --> this --> lease valid? --> chain of routes
 *                                                  |
 *                                                  +--> the stack
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../sample/sample.h"

char guard_license[] SEC("license") = "Dual BSD/GPL";

/* One entry: end of the lease in nanoseconds of CLOCK_MONOTONIC. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} guard_lease SEC(".maps");

/* Samples the destination. The kernel has already removed the outer VLAN tag. */
static __always_inline void destination(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct ethhdr *eth = data;
	const struct iphdr *four = (void *)(eth + 1);
	const struct ipv6hdr *six = (void *)(eth + 1);

	if (!sample_on || (void *)(four + 1) > end)
		return;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		sample4(four->daddr);
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6) && (void *)(six + 1) <= end)
		sample6(six->daddr.s6_addr32);
}

SEC("action")
int guard_believe(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const __u64 *until = bpf_map_lookup_elem(&guard_lease, &zero);

	destination(skb);
	return until && bpf_ktime_get_coarse_ns() <= *(const volatile __u64 *)until ? TC_ACT_PIPE : TC_ACT_OK;
}
