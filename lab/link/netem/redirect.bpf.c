//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A wire between two devices:
//
//   ingress of one device -> count -> egress of the other, through its qdiscs
//
// It does not parse frames: no address is learned or filtered, and tags and types do not matter.
// The wire carries a copy, and the original is freed at once: otherwise TCP small queues would keep
// the queue in TBF at two segments of a sender on this host, unlike on a real path.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* index of the egress device */
const volatile __u32 target;

/* received frames, per CPU */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} received SEC(".maps");

SEC("tc")
int wire(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *frames = bpf_map_lookup_elem(&received, &zero);

	if (frames)
		*frames += 1;
	bpf_clone_redirect(skb, target, 0);
	return TC_ACT_STOLEN;
}

char _license[] SEC("license") = "Dual BSD/GPL";
