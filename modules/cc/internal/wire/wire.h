/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types shared by the test link and its tests. */
#ifndef WEIR_CC_WIRE_H
#define WEIR_CC_WIRE_H

#include <linux/types.h>

/* A TCP segment at the sender's device. */
struct wire_segment {
	__u32 sequence; /* sequence number; for an acknowledgment the acknowledgment number */
	__u32 octets;   /* bytes of data */
	__u8 sent;      /* 1: data of the sender, 0: an acknowledgment for it */
	__u8 capable;   /* 1: ECT or CE */
	__u8 marked;    /* 1: this program set CE */
	__u8 echo;      /* ECE */
	__u8 reduced;   /* CWR */
	__u8 syn;
	__u16 pad;
};

#endif
