/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types that the XDP fast path shares with Go. */
#ifndef WEIR_OFFLOAD_FAST_H
#define WEIR_OFFLOAD_FAST_H

#include <linux/types.h>

enum fast_bounds {
	FAST_PORTS = 64,   /* input and output devices */
	FAST_VLANS = 4096, /* of a port; 0 for frames without a tag */
	FAST_HOPS = 16,    /* next hops of one route */
	FAST_FANOUT = 256, /* entries of a block */
	FAST_ROOT = 256,   /* first blocks of a family */
	FAST_OWN = 65536,  /* bits of the filter of own addresses */
};

/* A block entry is a decision, or a block number with this bit. */
enum fast_entry {
	FAST_CHILD = 0x80000000,
};

enum fast_flags {
	FAST_IPV4 = 1, /* forwarding is on */
	FAST_IPV6 = 2,
	FAST_UNFINISHED = 4, /* frames of other namespaces may have unfinished checksums */
};

/* One link: frames of a port and a tag. */
struct fast_input {
	__u8 mac[6];  /* frames for other addresses are left to the CPU */
	__u8 flags;   /* fast_flags; 0 leaves the link to the CPU */
	__u8 strict;  /* reverse-path filter: 0 none, 1 strict, 2 loose */
};

struct fast_hop {
	__u8 dst[6];
	__u8 src[6];
	__u16 vlan;  /* 0 for frames without a tag */
	__u16 port;  /* below FAST_PORTS */
	__u32 mtu;   /* bytes of a packet */
	__u32 bound; /* end of the range of hashes, below 2^31 */
};

/* Next hops of a decision. */
struct fast_next {
	__u32 count; /* hops; 0 is the CPU */
	__u32 first; /* in fast_hops, if there is more than one */
	struct fast_hop hop;
	__u32 pad[8];
};

struct fast_block {
	__u32 entry[FAST_FANOUT];
};

/* Reasons for leaving a packet to the CPU. */
enum fast_reason {
	FAST_OTHER,    /* no IP, for another host, or on a link outside the policy */
	FAST_EXPIRED,  /* the lease has ended */
	FAST_HEADER,   /* options, extension headers, wrong lengths or checksum */
	FAST_TTL,
	FAST_SOURCE,   /* fails the reverse-path filter, or invalid */
	FAST_ROUTE,    /* decision of the table */
	FAST_MTU,
	FAST_SAME,     /* output link is the input link */
	FAST_CHECKSUM, /* may be unfinished */
	FAST_REASONS,
};

struct fast_count {
	__u64 packets;
	__u64 octets; /* of received frames */
};

#endif
