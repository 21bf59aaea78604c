/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the congestion controls and Go share. */
#ifndef WEIR_CC_H
#define WEIR_CC_H

#include <linux/types.h>

#include "ledbat.h"

#define CC_ALPHA_ONE  65536 /* alpha of 1: every octet met congestion (SCF in RFC 8257, section 4.2) */
#define CC_GAIN_SHIFT 4     /* g = 1/16 (SHF) */

enum cc_event_kind {
	CC_EVENT_START = 1,  /* the control has taken a connection over */
	CC_EVENT_ACK = 2,    /* an acknowledgment was processed */
	CC_EVENT_REDUCE = 3, /* the kernel asked for a new slow start threshold; ssthresh is the answer */
};

/* One step of one connection, for whoever follows the algorithm. */
struct cc_event {
	__u64 time;       /* ns, monotonic clock */
	enum cc_event_kind kind;
	__u32 una;        /* sequence number: SND.UNA */
	__u32 nxt;        /* sequence number: SND.NXT */
	__u32 window_end; /* sequence number: DCTCP.WindowEnd after this step */
	__u32 alpha;      /* of CC_ALPHA_ONE, after this step */
	__u32 cwnd;       /* segments */
	__u32 ssthresh;   /* segments */
	__u16 local_port;
	__u16 peer_port;
	__u32 acked;      /* octets that this acknowledgment covers first */
	__u32 echo;       /* 1 if it carried ECE */
};

#define CC_NAME 16 /* octets of a control's name, filled up with zeros */

enum cc_scope_flags {
	CC_SCOPE_ECN = 1, /* the control needs ECN from the handshake on */
};

/* What a scope's connections are given. All zeros: nothing. */
struct cc_scope {
	__u8 control[CC_NAME]; /* empty: that which they have */
	enum cc_scope_flags flags;
	struct ledbat_tunables receive; /* rLEDBAT; a target of 0 for none */
};

/* What the program is told beside its scopes. */
struct cc_settings {
	__u32 kinds;  /* enum match_kind of those that have scopes */
	__u32 filled; /* 1 once everything was set for the first time */
};

/* What a scope has done with its connections. */
struct cc_scope_counts {
	__u64 assigned; /* were given the congestion control; in shadow, would have been if their peer takes part in ECN */
	__u64 no_ecn;   /* left as they were: the peer does not take part in ECN */
	__u64 chosen;   /* left as they were: the application has chosen a congestion control itself */
	__u64 failed;   /* the kernel refused, as when the control has been removed */
	__u64 receivers;     /* connections whose receive window is steered */
	__u64 no_timestamps; /* connections whose is not: the peer does without TCP's timestamps */
	__u64 slowdowns;
	__u64 reductions; /* losses that took from a window */
	__u64 steps;      /* acknowledgments that were looked at */
	__u64 window;     /* octets: sum of the windows after them */
	__u64 delay;      /* us: sum of the queueing delays */
};

#endif
