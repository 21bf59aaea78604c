//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first action of filters in software: the rules behind it are believed only as long as
 * somebody keeps them in step with the kernel's routing.
 *
 *     frame --> filter of chain 0 --> this --> lease in time? --> chain of routes
 *                                                  |
 *                                                  +--> the stack
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

char guard_license[] SEC("license") = "Dual BSD/GPL";

/* One entry: nanoseconds of CLOCK_MONOTONIC. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} guard_lease SEC(".maps");

SEC("action")
int guard_believe(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const __u64 *until = bpf_map_lookup_elem(&guard_lease, &zero);

	return until && bpf_ktime_get_coarse_ns() <= *(const volatile __u64 *)until ? TC_ACT_PIPE : TC_ACT_OK;
}
