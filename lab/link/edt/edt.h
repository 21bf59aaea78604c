/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs of a direction share with Go, which bpf2go generates from here. */
#ifndef WEIR_EDT_H
#define WEIR_EDT_H

#define EDT_TIME_SHIFT 20     /* times on the wire are ns times 2^20 */
#define EDT_QUANTILES 4096    /* of the jitter's distribution, and one more */
#define EDT_QUANTILE_SHIFT 20 /* a quantile is in deviations times 2^20 */
#define EDT_DEPTHS 6000       /* intervals of a queue's length that are kept: ten minutes */
#define EDT_DEPTH_NS 100000000
#define EDT_SEARCH 20         /* steps of a binary search in the ring */

/* Constants of one direction. Chances are of 2^32. */
struct edt_config {
	__u64 octet_time;   /* ns times 2^EDT_TIME_SHIFT an octet; 0 does not limit */
	__u64 delay_ns;
	__u64 jitter_ns;    /* one deviation */
	__u64 limit_octets; /* that may wait; 0 is no limit */
	__u64 mark_octets;  /* more than these in front of a frame mark it; 0 marks none */
	__u64 to_bad;       /* chance per frame to go from the good state to the bad one */
	__u64 to_good;
	__u64 lost_good;    /* chance to be lost in the good state */
	__u64 lost_bad;
	__u64 reorder;
	__u64 duplicate;
	__u64 corrupt;
	__u32 limit_packets; /* that may wait */
	__u32 ring_mask;     /* entries of the ring less one */
	__u32 every_nth;     /* frames of which the last is lost; 0 loses none */
	__u32 overhead;      /* octets of a frame on the wire beyond its own */
	__u32 keep_order;
	__u32 target;        /* index of the device that frames leave from */
};

/* A frame that waits for the wire. */
struct edt_waiter {
	__u64 start_ns; /* when it gets onto the wire */
	__u64 before;   /* octets that had been queued in front of it, ever */
};

/* Totals of one direction, written by the programs alone. */
struct edt_counters {
	__u64 received;
	__u64 received_octets;
	__u64 queue_drops;
	__u64 loss_drops;
	__u64 marked;
	__u64 duplicated;
	__u64 reordered;
	__u64 corrupted;
	__u64 failed;      /* frames that the qdisc did not take */
	__u64 foreign;     /* frames that did not come in by the link, dropped */
};

/* Lengths of the queue since began_ns: the most octets that waited in each interval. */
struct edt_depths {
	__u64 began_ns;
	__u64 max_octets; /* in all of them */
	__u32 octets[EDT_DEPTHS];
};

/* The jitter's distribution: its quantiles at 0/EDT_QUANTILES, 1/EDT_QUANTILES ... 1. */
struct edt_shape {
	__s32 quantile[EDT_QUANTILES + 1];
};

#endif
