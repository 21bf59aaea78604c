/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types shared by the congestion controls and Go. */
#ifndef WEIR_CC_H
#define WEIR_CC_H

#include <linux/types.h>

#include "ledbat.h"

#define CC_ALPHA_ONE  65536 /* alpha of 1: every byte was marked (SCF in RFC 8257, section 4.2) */
#define CC_GAIN_SHIFT 4     /* g = 1/16 (SHF) */

enum cc_event_kind {
	CC_EVENT_START = 1,  /* start on a connection */
	CC_EVENT_ACK = 2,    /* an acknowledgment was processed */
	CC_EVENT_REDUCE = 3, /* the kernel requested a new slow start threshold, in ssthresh */
};

/* Trace of one step of a connection. */
struct cc_event {
	__u64 time;       /* ns, monotonic clock */
	enum cc_event_kind kind;
	__u32 una;        /* sequence number: SND.UNA */
	__u32 nxt;        /* sequence number: SND.NXT */
	__u32 window_end; /* sequence number: DCTCP.WindowEnd after this step */
	__u32 alpha;      /* in units of CC_ALPHA_ONE, after this step */
	__u32 cwnd;       /* segments */
	__u32 ssthresh;   /* segments */
	__u16 local_port;
	__u16 peer_port;
	__u32 acked;      /* bytes newly acknowledged */
	__u32 echo;       /* 1 with ECE */
};

#define CC_NAME 16 /* bytes of a control's name, padded with zeros */

enum cc_scope_flags {
	CC_SCOPE_ECN = 1, /* the control needs ECN, negotiated in the handshake */
};

/* The congestion control of a scope. All zeros: none. */
struct cc_scope {
	__u8 control[CC_NAME]; /* empty: no change */
	enum cc_scope_flags flags;
	struct ledbat_tunables receive; /* rLEDBAT; target 0 for none */
};

/* Settings of the program. */
struct cc_settings {
	__u32 kinds;  /* enum match_kind: bits of the kinds in use */
	__u32 filled; /* 1 after the first complete configuration */
};

/* Counters of a scope. */
struct cc_scope_counts {
	__u64 assigned; /* connections with the control; in shadow, as if all peers supported ECN */
	__u64 no_ecn;   /* unchanged: the peer does not support ECN */
	__u64 chosen;   /* unchanged: the application set a congestion control itself */
	__u64 failed;   /* setsockopt failed, for example because the control was removed */
	__u64 receivers;     /* connections with rLEDBAT */
	__u64 no_timestamps; /* connections without rLEDBAT: the peer lacks TCP timestamps */
	__u64 slowdowns;
	__u64 reductions; /* window reductions after a loss */
	__u64 steps;      /* acknowledgments processed */
	__u64 window;     /* bytes: sum of the windows after each step */
	__u64 delay;      /* us: sum of the queueing delays */
};

#endif
