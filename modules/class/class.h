/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types shared by the marking programs and Go. */
#ifndef WEIR_CLASS_H
#define WEIR_CLASS_H

#include <linux/types.h>

#define CLASS_DSCPS 64

/* The class of a scope. */
struct class_scope {
	__u64 asked; /* one bit per accepted DSCP of requests (as-asked); 0 selects dscp */
	__u32 dscp;  /* differentiated services code point, 0 to 63 (RFC 2474) */
	__u32 unused;
};

/* Settings of the programs. */
struct class_settings {
	__u64 asked;  /* union of the scopes' asked */
	__u32 kinds;  /* enum match_kind: bits of the kinds in use */
	__u32 filled; /* 1 after the first complete configuration */
	/* By DSCP: skb->priority + 1, which selects the local queue; 0 leaves it unchanged. */
	__u8 priority[CLASS_DSCPS];
};

/* Counters of a scope; in shadow, of the hypothetical effect. */
struct class_counts {
	__u64 packets; /* a super-packet (GSO) counts as one */
	__u64 octets;  /* bytes from the network header on; one header per super-packet */
	__u64 marked;  /* packets that had another code point */
	__u64 failed;  /* packets with a header that could not be written */
};

#endif
