//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A rate limit by departure times alone, like Cilium's bandwidth manager: a packet departs one
 * transmission time after its predecessor, fq delays it until then, and it is dropped beyond a
 * horizon. No marks, no controller.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

char edt_license[] SEC("license") = "Dual BSD/GPL";

#define SECOND 1000000000ULL
#define HORIZON (2 * SECOND)
#define MONOTONIC 1 /* BPF_SKB_CLOCK_MONOTONIC */

const volatile __u64 edt_rate = 1; /* octet/s */
__u64 edt_last;                    /* departure of the last packet, CLOCK_MONOTONIC */

SEC("tc")
int edt(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), last = edt_last;
	__u64 next = last + skb->wire_len * SECOND / edt_rate;

	if (next <= now) {
		edt_last = now;
		return TC_ACT_UNSPEC;
	}
	if (next - now >= HORIZON)
		return TC_ACT_SHOT;
	edt_last = next;
	bpf_skb_set_tstamp(skb, next, MONOTONIC);
	return TC_ACT_UNSPEC;
}
