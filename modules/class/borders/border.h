/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a border's data plane and Go share. */
#ifndef WEIR_BORDER_H
#define WEIR_BORDER_H

#include <linux/types.h>

#define BORDER_DSCPS 64
#define BORDER_KEEP 64 /* in place of a DSCP: it keeps the one that it has */

enum border_direction {
	BORDER_IN,  /* comes in by the device */
	BORDER_OUT, /* leaves by it */
	BORDER_DIRECTIONS,
};

/* Which address of a packet a prefix is about, and of which version of IP: their sum. */
enum border_side {
	BORDER_FROM = 0,
	BORDER_TO = 1,
	BORDER_IPV4 = 4,
	BORDER_IPV6 = 6,
};

/* Key of the longest-prefix match. */
struct border_prefix {
	__u32 length; /* bits, with those of side */
	__u32 side;   /* enum border_side; at the front, so that all of it must match */
	__u32 address[4]; /* network byte order; IPv4's is the first */
};

/* What a prefix's packets are given. */
struct border_rule {
	__u32 dscp;
	__u32 length; /* of the prefix, in bits */
};

/* What the programs are told; it is set when they are loaded. */
struct border_settings {
	__u32 header; /* octets in front of an IP header: Ethernet's, or 0 */
	__u32 shadow; /* 1 counts, and writes nothing */
	__u32 rules;  /* 1 where prefixes have classes */
	__u32 unused;
	__u8 translate[BORDER_DIRECTIONS][BORDER_DSCPS]; /* DSCP to the other network's; BORDER_KEEP if it is the same */
};

/* What was done with the packets of a direction; in shadow, what would have been. */
struct border_counts {
	__u64 packets;    /* of IP, super-packets as one */
	__u64 octets;     /* of them, from the network header on; of super-packets, one header */
	__u64 marked;     /* had another DSCP than their prefix's class */
	__u64 translated; /* had a DSCP that the other network knows as another */
	__u64 failed;     /* whose header could not be written */
};

#endif
