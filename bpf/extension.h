/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * IPv6 extension headers: RFC 8200 section 4, RFC 4302, RFC 6564, and the IANA registry.
 *
 *   header                               octets                  followed by
 *   Hop-by-Hop, Routing, Destination     8 * (second octet + 1)  any header; in every fragment
 *   Mobility, HIP, Shim6                 8 * (second octet + 1)  usually nothing: an upper layer
 *   Authentication                       4 * (second octet + 2)  any header
 *   Fragment                             8                       headers in the first fragment only
 *
 * Encapsulating Security Payload (50) counts as an upper layer because its content is encrypted;
 * 253 and 254 (experiments) do because their format is unknown. upper_layer.h walks the headers.
 */
#ifndef WEIR_EXTENSION_H
#define WEIR_EXTENSION_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#define NEXTHDR_HOP 0
#define NEXTHDR_ROUTING 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_AUTH 51
#define NEXTHDR_NONE 59
#define NEXTHDR_DEST 60
#define NEXTHDR_MOBILITY 135
#define NEXTHDR_HIP 139
#define NEXTHDR_SHIM6 140

/* Sets of headers below 64, as bits. */
#define EXTENSION_REPEATED (1ULL << NEXTHDR_HOP | 1ULL << NEXTHDR_ROUTING | 1ULL << NEXTHDR_DEST)
#define EXTENSION_LOW (EXTENSION_REPEATED | 1ULL << NEXTHDR_FRAGMENT | 1ULL << NEXTHDR_AUTH)

static __always_inline int extension_in(__u32 next, __u64 set)
{
	return next < 64 && set >> next & 1;
}

/* Protocols in the format of an extension header: RFC 6275, 7401 and 5533. */
static __always_inline int extension_signals(__u32 next)
{
	return next == NEXTHDR_MOBILITY || next == NEXTHDR_HIP || next == NEXTHDR_SHIM6;
}

/* Reports whether a next header is an extension header or in a set of others below 64. */
static __always_inline int extension_or(__u32 next, __u64 others)
{
	return next < 64 ? (EXTENSION_LOW | others) >> next & 1 : extension_signals(next);
}

static __always_inline int extension_is(__u32 next)
{
	return extension_or(next, 0);
}

/* Length of an extension header in octets, from its second octet. */
static __always_inline __u32 extension_length(__u32 type, __u8 second)
{
	if (type == NEXTHDR_FRAGMENT)
		return 8;
	return type == NEXTHDR_AUTH ? (second + 2U) * 4 : (second + 1U) * 8;
}

/* Reports whether a header is itself the upper layer, because its next header is none. */
static __always_inline int extension_ends(__u32 type, __u32 next)
{
	return next == NEXTHDR_NONE && extension_signals(type);
}

/* Reports whether the offset in a Fragment header is above 0. */
static __always_inline int extension_later(__u8 third, __u8 fourth)
{
	return third || fourth & 0xf8;
}

#endif /* WEIR_EXTENSION_H */
