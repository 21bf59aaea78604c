/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a packet of IPv6 carries behind its extension headers: protocol, place, and whether it is in
 * a fragment but the first.
 *
 *   IPv6 | Hop-by-Hop | Destination | Fragment | Destination | UDP
 *   0    40                         repeated                 at
 *
 * Whoever asks extension_is() first walks only where there is something to walk. The walk believes
 * what headers say, in any order: who has to check them has a walk of its own (ioam/walk.h).
 *
 * Include it after linux/bpf.h and bpf/bpf_helpers.h.
 */
#ifndef WEIR_UPPER_LAYER_H
#define WEIR_UPPER_LAYER_H

#include "extension.h"

#define UPPER_IP6 40      /* octets of the IPv6 header */
#define UPPER_MOST 8      /* extension headers that are walked; the kernel's own senders have fewer */
#define UPPER_NETWORK ~0U /* instead of an octet: where the kernel has the network header */

/* The upper layer of a packet, or the last extension header that could be read. */
struct upper_layer {
	__u32 at;       /* octets from the IPv6 header's first to its own */
	__u32 repeated; /* octets from there that are in every fragment, as Linux cuts packets */
	__u8 protocol;  /* an extension header's where it is cut off, or one too many */
	__u8 later;     /* in a fragment but the first: its own header is in another packet */
	__u8 unused[2];
};

/* One that follows the IPv6 header, or is an extension header that does. */
static __always_inline struct upper_layer upper_layer_of(__u8 next)
{
	return (struct upper_layer){.at = UPPER_IP6, .repeated = UPPER_IP6, .protocol = next};
}

/*
 * Walks from the header that u begins with to the upper layer. Octets count from the IPv6 header,
 * which begins at an octet of the packet, in whatever part of it, or at UPPER_NETWORK, and then
 * only the linear part is seen. Global: verified once.
 */
__attribute__((noinline)) int upper_layer_walk(struct __sk_buff *skb, struct upper_layer *u, __u32 ip)
{
	__u32 routed = 0;
	__u8 head[4];

	if (!u)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < UPPER_MOST; i++) {
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
