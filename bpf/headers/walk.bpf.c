//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Walks headers and stores the result, for the tests of bpf/upper_layer.h. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "../upper_layer.h"

char walk_license[] SEC("license") = "Dual BSD/GPL";

/* Results: by octets of the packet, and from the kernel's network header. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct upper_layer);
} walk_found SEC(".maps");

static __always_inline void walk(struct __sk_buff *skb, __u32 ip)
{
	__u32 which = ip == UPPER_NETWORK;
	struct upper_layer upper;
	__u8 next;

	if (bpf_skb_load_bytes_relative(skb, 6, &next, 1, BPF_HDR_START_NET))
		return;
	upper = upper_layer_of(next);
	if (extension_is(next))
		upper_layer_walk(skb, &upper, ip);
	bpf_map_update_elem(&walk_found, &which, &upper, BPF_ANY);
}

SEC("tc")
int walk_device(struct __sk_buff *skb)
{
	walk(skb, ETH_HLEN);
	walk(skb, UPPER_NETWORK);
	return TC_ACT_UNSPEC;
}

SEC("cgroup_skb/egress")
int walk_cgroup(struct __sk_buff *skb)
{
	walk(skb, 0);
	walk(skb, UPPER_NETWORK);
	return 1;
}
