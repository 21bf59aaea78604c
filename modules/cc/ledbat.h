/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types shared by LEDBAT++ and Go. */
#ifndef WEIR_CC_LEDBAT_H
#define WEIR_CC_LEDBAT_H

#include <linux/types.h>

#define LEDBAT_ONE        65536 /* one segment, in the window's fraction */
#define LEDBAT_MIN_WINDOW 2     /* segments */
#define LEDBAT_MINUTES    10    /* BASE_HISTORY of RFC 6817: minima per minute for the base delay */
#define LEDBAT_MINUTE     3662109 /* ticks */
#define LEDBAT_TICK_SHIFT 14    /* a tick is 16384 ns */
#define LEDBAT_EXPLORE_SHIFT 2  /* above the former window, slow start grows a quarter as fast */

/* The parameters of a variant. */
struct ledbat_tunables {
	__u32 target;   /* us: TARGET, the queueing delay to reach */
	__u32 explore;  /* 1: slow start after a slowdown continues until the delay is TARGET/4 */
	__u32 tolerant; /* 1: a loss subtracts the queue instead of half of the window, on paths with a measurable queue */
};

enum ledbat_phase {
	LEDBAT_START = 1, /* the first slow start */
	LEDBAT_AVOID = 2, /* congestion avoidance */
	LEDBAT_DRAIN = 3, /* a slowdown: two segments, for two round trips */
	LEDBAT_CLIMB = 4, /* slow start up to the former window */
};

enum ledbat_event_kind {
	LEDBAT_EVENT_START = 1,  /* start on a connection */
	LEDBAT_EVENT_ACK = 2,    /* an acknowledgment was processed */
	LEDBAT_EVENT_REDUCE = 3, /* the kernel requested a new slow start threshold */
	LEDBAT_EVENT_UNDO = 4,   /* the kernel undoes a reduction; ssthresh is the restored window */
};

/* Trace of one step of a connection: inputs and results. */
struct ledbat_event {
	__u64 time; /* ns, monotonic clock */
	enum ledbat_event_kind kind;
	enum ledbat_phase phase;
	__u32 base;     /* us: base delay */
	__u32 delay;    /* us: queueing delay */
	__u32 srtt;     /* us */
	__u32 acked;    /* segments delivered since the last step */
	__u32 lost;     /* segments considered lost since the round began */
	__u32 limited;  /* 1 if the window limited the sender */
	__u32 cwnd;     /* segments */
	__u32 part;     /* in units of LEDBAT_ONE */
	__u32 ssthresh; /* segments */
	__u32 rate_delivered; /* segments delivered in rate_interval: the kernel's last sample */
	__u32 rate_interval;  /* us */
	__u32 flight;         /* unacknowledged segments */
	__u16 local_port;
	__u16 peer_port;
};

#endif
