/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A sender in another namespace of the same host leaves checksums to its virtual device, which
 * leaves them to a later one. The kernel notes this beside the packet, invisible to XDP, and a
 * redirected packet would keep its unfinished checksum.
 *
 * checksum field of TCP and UDP --> the pseudo-header's sum alone? --> unfinished: left to the CPU
 *
 * One finished checksum of 65,536 has the same value; the kernel forwards such packets.
 */
#ifndef WEIR_OFFLOAD_UNFINISHED_H
#define WEIR_OFFLOAD_UNFINISHED_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PROTO_IPIP 4
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_IPV6 41
#define PROTO_GRE 47
#define PROTO_SCTP 132

static __always_inline __u64 sum_words(const __u32 *w, int n)
{
	__u64 sum = 0;

	for (int i = 0; i < n; i++)
		sum += w[i];
	return sum;
}

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Tunnels: the inner packet may have the unfinished checksum. */
static __always_inline int tunnel_port(__be16 port)
{
	return port == bpf_htons(4789) || port == bpf_htons(8472) || port == bpf_htons(6081);
}

/* addresses is the sum of both; size is the bytes behind the IP header. */
static __always_inline int unfinished(__u8 proto, const void *l4, const void *end, __u64 addresses, __u32 size)
{
	const __u16 *w = l4;
	__u16 check;

	switch (proto) {
	case PROTO_TCP:
		if ((const void *)(w + 9) > end)
			return 1;
		check = w[8];
		break;
	case PROTO_UDP:
		if ((const void *)(w + 4) > end || tunnel_port(w[1]))
			return 1;
		check = w[3];
		break;
	case PROTO_SCTP: /* CRC32c, which is 0 until it is finished */
		return (const void *)(w + 6) > end || !(w[4] | w[5]);
	case PROTO_IPIP:
	case PROTO_IPV6:
	case PROTO_GRE:
		return 1;
	default:
		return 0;
	}
	return check == folded(addresses + bpf_htons(proto) + bpf_htons(size));
}

#endif
