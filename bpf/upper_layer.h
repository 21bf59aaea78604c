/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The upper layer of an IPv6 packet: protocol, offset, and whether it is in a fragment other than
 * the first.
 *
 *   IPv6 | Hop-by-Hop | Destination | Fragment | Destination | UDP
 *   0    40                         repeated                 at
 *
 * Callers check extension_is() first and skip the walk for most packets. The walk trusts the
 * headers and accepts any order; modules/ioam/node/walk.h validates them.
 */
#ifndef WEIR_UPPER_LAYER_H
#define WEIR_UPPER_LAYER_H

#include <linux/bpf.h>

#include "extension.h"

#define UPPER_IP6 40      /* octets of the IPv6 header */
#define UPPER_MAX 8       /* extension headers that the walk passes; Linux sends fewer */
#define UPPER_NETWORK ~0U /* instead of an offset: the kernel's network header */

/* The upper layer of a packet, or the last readable extension header. */
struct upper_layer {
	__u32 at;       /* octets from the start of the IPv6 header */
	__u32 repeated; /* octets from there that Linux repeats in every fragment */
	__u8 protocol;  /* an extension header's number if the packet is cut off or has too many */
	__u8 later;     /* 1 in a fragment other than the first: another packet has the header */
	__u8 unused[2];
};

/* Start of a walk: the header directly behind the IPv6 header. */
static __always_inline struct upper_layer upper_layer_of(__u8 next)
{
	return (struct upper_layer){.at = UPPER_IP6, .repeated = UPPER_IP6, .protocol = next};
}

/*
 * Walks from the header at u to the upper layer. ip is the offset of the IPv6 header in the packet,
 * or UPPER_NETWORK; then only the linear part is read. Global: verified once.
 */
__attribute__((noinline)) int upper_layer_walk(struct __sk_buff *skb, struct upper_layer *u, __u32 ip)
{
	__u32 routed = 0;
	__u8 head[4];

	if (!u)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < UPPER_MAX; i++) {
		__u32 type = u->protocol, at = u->at;
		long cut;

		if (!extension_is(type))
			break;
		if (ip == UPPER_NETWORK)
			cut = bpf_skb_load_bytes_relative(skb, at, head, sizeof(head), BPF_HDR_START_NET);
		else
			cut = bpf_skb_load_bytes(skb, ip + at, head, sizeof(head));
		if (cut || extension_ends(type, head[0]))
			break;
		u->protocol = head[0];
		u->at = at + extension_length(type, head[1]);
		if (extension_in(type, EXTENSION_REPEATED) && u->repeated == at && !(type == NEXTHDR_DEST && routed))
			u->repeated = u->at;
		routed |= type == NEXTHDR_ROUTING;
		if (type == NEXTHDR_FRAGMENT && extension_later(head[2], head[3])) {
			u->later = 1;
			break;
		}
	}
	return 0;
}

#endif /* WEIR_UPPER_LAYER_H */
