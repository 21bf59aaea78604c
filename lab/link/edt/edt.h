/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Structures that a direction's programs share with Go; bpf2go generates the Go types. */
#ifndef WEIR_EDT_H
#define WEIR_EDT_H

#define EDT_TIME_SHIFT 20     /* times on the wire are ns times 2^20 */
#define EDT_QUANTILES 4096    /* intervals of the jitter's distribution */
#define EDT_QUANTILE_SHIFT 20 /* a quantile is in deviations times 2^20 */
#define EDT_DEPTHS 6000       /* kept intervals of a queue's length: ten minutes */
#define EDT_DEPTH_NS 100000000
#define EDT_SEARCH 20         /* steps of a binary search in the ring */

/* Constants of one direction. Probabilities are multiples of 2^-32. */
struct edt_config {
	__u64 octet_time;   /* ns times 2^EDT_TIME_SHIFT per byte; 0 does not limit */
	__u64 delay_ns;
	__u64 jitter_ns;    /* one deviation */
	__u64 limit_octets; /* maximum queue; 0 is no limit */
	__u64 mark_octets;  /* more bytes ahead of a frame mark it; 0 marks none */
	__u64 to_bad;       /* probability per frame of the step from good to bad */
	__u64 to_good;
	__u64 lost_good;    /* probability of loss in the good state */
	__u64 lost_bad;
	__u64 reorder;
	__u64 duplicate;
	__u64 corrupt;
	__u32 limit_packets; /* maximum queue; 0 is no limit */
	__u32 ring_mask;     /* entries of the ring minus one */
	__u32 every_nth;     /* one frame in so many is lost; 0 loses none */
	__u32 overhead;      /* bytes on the wire beyond the frame's own */
	__u32 keep_order;
	__u32 target;        /* index of the egress device */
};

/* A frame in the queue. */
struct edt_waiter {
	__u64 start_ns; /* start of its serialization */
	__u64 before;   /* bytes queued before it, in total */
};

/* Totals of one direction, written only by the programs. */
struct edt_counters {
	__u64 received;
	__u64 received_octets;
	__u64 queue_drops;
	__u64 loss_drops;
	__u64 marked;
	__u64 duplicated;
	__u64 reordered;
	__u64 corrupted;
	__u64 failed;      /* frames rejected by the qdisc */
	__u64 foreign;     /* frames that did not enter by the link, dropped */
};

/* Lengths of the queue since began_ns: the maximum bytes in each interval. */
struct edt_depths {
	__u64 began_ns;
	__u64 max_octets; /* over all intervals */
	__u32 octets[EDT_DEPTHS];
};

/* The jitter's distribution: its quantiles at 0/EDT_QUANTILES, 1/EDT_QUANTILES, ... 1. */
struct edt_shape {
	__s32 quantile[EDT_QUANTILES + 1];
};

#endif
