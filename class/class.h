/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the classes' data plane and Go share. */
#ifndef WEIR_CLASS_H
#define WEIR_CLASS_H

#include <linux/types.h>

/* What a scope's packets are given. */
struct class_scope {
	__u32 dscp;     /* differentiated services code point, 0 to 63 (RFC 2474) */
	__u32 priority; /* of the queue that it waits in here (skb->priority), and 1; 0 leaves it */
};

/* What the program is told beside its scopes. */
struct class_settings {
	__u32 kinds;  /* enum match_kind of those that have scopes */
	__u32 filled; /* 1 once everything was set for the first time */
};

/* What was done with a scope's packets; in shadow, what would have been. */
struct class_counts {
	__u64 packets; /* as the stack hands them over */
	__u64 octets;  /* of them, from the network header on; of super-packets, one header */
	__u64 marked;  /* packets that had another code point */
	__u64 failed;  /* packets whose header could not be written */
};

#endif
