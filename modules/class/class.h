/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the classes' data plane and Go share. */
#ifndef WEIR_CLASS_H
#define WEIR_CLASS_H

#include <linux/types.h>

#define CLASS_DSCPS 64

/* What a scope's packets are given. */
struct class_scope {
	__u64 asked; /* a bit for each DSCP in which it answers whoever asks in it; 0 gives dscp */
	__u32 dscp;  /* differentiated services code point, 0 to 63 (RFC 2474) */
	__u32 unused;
};

/* What the programs are told beside their scopes. */
struct class_settings {
	__u64 asked;  /* what any scope may be asked for */
	__u32 kinds;  /* enum match_kind of those that have scopes */
	__u32 filled; /* 1 once everything was set for the first time */
	/* By DSCP: of the queue that packets wait in here (skb->priority), and 1; 0 leaves it. */
	__u8 priority[CLASS_DSCPS];
};

/* What was done with a scope's packets; in shadow, what would have been. */
struct class_counts {
	__u64 packets; /* as the stack hands them over */
	__u64 octets;  /* of them, from the network header on; of super-packets, one header */
	__u64 marked;  /* packets that had another code point */
	__u64 failed;  /* packets whose header could not be written */
};

#endif
