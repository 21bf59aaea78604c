/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the XDP fast path shares with Go. */
#ifndef WEIR_OFFLOAD_FAST_H
#define WEIR_OFFLOAD_FAST_H

#include <linux/types.h>

enum fast_bounds {
	FAST_PORTS = 64,   /* devices with a program, or that frames leave by */
	FAST_VLANS = 4096, /* of a port; 0 are frames without a tag */
	FAST_HOPS = 16,    /* ways of one route */
	FAST_FANOUT = 256, /* entries of a block */
	FAST_ROOT = 256,   /* blocks that a family begins with */
	FAST_OWN = 65536,  /* bits of the filter of own addresses */
};

/* An entry of a block is a decision, or the number of a block with this bit. */
enum fast_entry {
	FAST_CHILD = 0x80000000,
};

enum fast_flags {
	FAST_IPV4 = 1, /* forwarding is on */
	FAST_IPV6 = 2,
	FAST_UNFINISHED = 4, /* from other namespaces of the host: checksums may not be finished */
};

/* Frames of one link: of a port and a tag. */
struct fast_input {
	__u8 mac[6];  /* frames for others are none of ours */
	__u8 flags;   /* fast_flags; 0 leaves the link to the CPU */
	__u8 strict;  /* reverse-path filter: 0 none, 1 strict, 2 loose */
};

struct fast_hop {
	__u8 dst[6];
	__u8 src[6];
	__u16 vlan;  /* 0 for frames without a tag */
	__u16 port;  /* below FAST_PORTS */
	__u32 mtu;   /* octets of a packet */
	__u32 bound; /* least hash that is not this hop's any more, below 2^31 */
};

/* What becomes of a decision's packets. */
struct fast_next {
	__u32 count; /* hops; 0 is the CPU */
	__u32 first; /* in fast_hops, if there is more than one */
	struct fast_hop hop;
	__u32 pad[8];
};

struct fast_block {
	__u32 entry[FAST_FANOUT];
};

/* Why a packet was left to the CPU. */
enum fast_reason {
	FAST_OTHER,    /* no IP, another host's, a link that is not offloaded */
	FAST_EXPIRED,  /* no follower keeps the table in step with the kernel */
	FAST_HEADER,   /* options, extension headers, wrong lengths or checksum */
	FAST_TTL,
	FAST_SOURCE,   /* not to be believed, or not to be forwarded */
	FAST_ROUTE,    /* decided so */
	FAST_MTU,
	FAST_SAME,     /* leaves by the link that it came by */
	FAST_CHECKSUM, /* its checksum may not be finished */
	FAST_REASONS,
};

struct fast_count {
	__u64 packets;
	__u64 octets; /* of frames as they came */
};

#endif
