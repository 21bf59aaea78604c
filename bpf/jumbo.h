/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The header of BIG TCP. Until Linux 7.0 an IPv6 super-packet of more than 65,535 bytes starts with
 * a Hop-by-Hop header with the Jumbo Payload option (RFC 2675). Its segments are sent without the
 * header (ipv6_hopopt_jumbo_remove() in the kernel).
 */
#ifndef WEIR_JUMBO_H
#define WEIR_JUMBO_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define JUMBO_HEADER 8 /* bytes */
#define JUMBO_OPTION 0xc2

/* Returns the bytes of this header in a super-packet; 0 without it. */
static __always_inline __u32 jumbo_header(struct __sk_buff *skb)
{
	__u8 ip[3], hop[3]; /* payload length and next header; next header, length and option */

	if (skb->gso_segs < 2 || skb->protocol != bpf_htons(0x86dd))
		return 0;
	if (bpf_skb_load_bytes_relative(skb, 4, ip, sizeof(ip), BPF_HDR_START_NET) || ip[0] | ip[1] | ip[2])
		return 0;
	if (bpf_skb_load_bytes_relative(skb, 40, hop, sizeof(hop), BPF_HDR_START_NET))
		return 0;
	return hop[0] == 6 && !hop[1] && hop[2] == JUMBO_OPTION ? JUMBO_HEADER : 0;
}

#endif /* WEIR_JUMBO_H */
