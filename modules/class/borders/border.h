/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types shared by the border programs and Go. */
#ifndef WEIR_BORDER_H
#define WEIR_BORDER_H

#include <linux/types.h>

#define BORDER_DSCPS 64
#define BORDER_KEEP 64 /* instead of a DSCP: no change */

enum border_direction {
	BORDER_IN,  /* ingress of the device */
	BORDER_OUT, /* egress */
	BORDER_DIRECTIONS,
};

/* The address that a prefix matches, plus the IP version. */
enum border_side {
	BORDER_FROM = 0,
	BORDER_TO = 1,
	BORDER_IPV4 = 4,
	BORDER_IPV6 = 6,
};

/* Key of the longest-prefix match. */
struct border_prefix {
	__u32 length; /* bits, including the 32 of side */
	__u32 side;   /* enum border_side; first, so that all of it must match */
	__u32 address[4]; /* network byte order; IPv4 in the first word */
};

/* The class of a prefix. */
struct border_rule {
	__u32 dscp;
	__u32 length; /* of the prefix, in bits */
};

/* Settings, set at load time. */
struct border_settings {
	__u32 header; /* bytes before the IP header: Ethernet's, or 0 */
	__u32 shadow; /* 1 counts without writing */
	__u32 rules;  /* 1 if prefixes have classes */
	__u32 unused;
	__u8 translate[BORDER_DIRECTIONS][BORDER_DSCPS]; /* DSCP to the new DSCP; BORDER_KEEP for no change */
};

/* Counters of a direction; in shadow, of the hypothetical effect. */
struct border_counts {
	__u64 packets;    /* IP packets; a super-packet (GSO) counts as one */
	__u64 octets;     /* bytes from the network header on; one header per super-packet */
	__u64 marked;     /* packets with another DSCP than their prefix's class */
	__u64 translated; /* packets with a translated DSCP */
	__u64 failed;     /* packets with a header that could not be written */
};

#endif
