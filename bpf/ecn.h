/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks a packet CE at a device's hook.
 *
 * bpf_skb_ecn_set_ce reads the protocol behind any VLAN tags but writes at the network header. A
 * frame with a tag in its data (QinQ, or one tag on a device without VLAN offload) has its tag at
 * the network header, and the helper would rewrite it. Cgroup hooks see no tags and do not need
 * this check.
 *
 * Include it after linux/bpf.h, linux/if_ether.h, bpf/bpf_helpers.h and bpf/bpf_endian.h.
 */
#ifndef WEIR_ECN_H
#define WEIR_ECN_H

/* Returns 1 for a packet that is marked CE now; 0 for a frame without an ECN-capable IP header. */
static __always_inline int ecn_mark(struct __sk_buff *skb)
{
	__u8 version = skb->protocol == bpf_htons(ETH_P_IP) ? 4 : skb->protocol == bpf_htons(ETH_P_IPV6) ? 6 : 0, first;

	if (!version || bpf_skb_load_bytes_relative(skb, 0, &first, 1, BPF_HDR_START_NET) || first >> 4 != version)
		return 0;
	return bpf_skb_ecn_set_ce(skb) > 0;
}

#endif
