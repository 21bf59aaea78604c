/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What LEDBAT++ and Go share. */
#ifndef WEIR_CC_LEDBAT_H
#define WEIR_CC_LEDBAT_H

#include <linux/types.h>

#define LEDBAT_ONE        65536 /* a segment, of a window's fraction */
#define LEDBAT_MIN_WINDOW 2     /* segments */
#define LEDBAT_MINUTES    10    /* minima that the base delay is the least of: BASE_HISTORY of RFC 6817 */
#define LEDBAT_MINUTE     3662109 /* ticks */
#define LEDBAT_TICK_SHIFT 14    /* a tick is 16384 ns */
#define LEDBAT_EXPLORE_SHIFT 2  /* beyond the window of before, a climb is a quarter as steep */

/* How a variant differs from another. */
struct ledbat_tunables {
	__u32 target;   /* us: the queueing delay that it aims at */
	__u32 explore;  /* 1: after a slowdown the climb goes on until a queue of a quarter of the target is seen */
	__u32 tolerant; /* 1: loss takes what the queue holds, not half of the window, on a path that shows its queue */
};

enum ledbat_phase {
	LEDBAT_START = 1, /* the first slow start */
	LEDBAT_AVOID = 2, /* congestion avoidance */
	LEDBAT_DRAIN = 3, /* a slowdown: two segments, for two round trips */
	LEDBAT_CLIMB = 4, /* slow start, up to the window of before */
};

enum ledbat_event_kind {
	LEDBAT_EVENT_START = 1,  /* the control has taken a connection over */
	LEDBAT_EVENT_ACK = 2,    /* an acknowledgment was processed */
	LEDBAT_EVENT_REDUCE = 3, /* the kernel asked for a new slow start threshold */
	LEDBAT_EVENT_UNDO = 4,   /* the kernel takes a reduction back; ssthresh is the window to go on with */
};

/* One step of one connection: what it was made from, and what became of it. */
struct ledbat_event {
	__u64 time; /* ns, monotonic clock */
	enum ledbat_event_kind kind;
	enum ledbat_phase phase;
	__u32 base;     /* us: base delay */
	__u32 delay;    /* us: queueing delay */
	__u32 srtt;     /* us */
	__u32 acked;    /* segments that were delivered since the last step */
	__u32 lost;     /* segments that were taken for lost since the round began */
	__u32 limited;  /* 1 if the window kept the sender from sending more */
	__u32 cwnd;     /* segments */
	__u32 part;     /* of LEDBAT_ONE */
	__u32 ssthresh; /* segments */
	__u32 rate_delivered; /* segments that were delivered in rate_interval: the kernel's last sample */
	__u32 rate_interval;  /* us */
	__u32 flight;         /* segments that are sent and not acknowledged */
	__u16 local_port;
	__u16 peer_port;
};

#endif
