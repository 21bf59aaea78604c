//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A wire between two devices:
//
//   ingress of one device -> count -> egress of the other, through its queueing disciplines
//
// The frame is not looked at: no addresses are learned, none are filtered, tags and types do not
// matter. A copy goes on, and the frame is given back to who sent it: else a sender on this host
// would know of what waits in TBF, and TCP would keep that queue to two segments (TCP small queues)
// that no path's queue tells it of.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* index of the device that frames leave from */
const volatile __u32 target;

/* frames that came in, per processor */
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
