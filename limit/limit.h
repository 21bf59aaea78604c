/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the limit data plane and its Go half share. One scope has two directions; its index in every map is 2 * scope + direction. */
#ifndef WEIR_LIMIT_H
#define WEIR_LIMIT_H

#define LIMIT_SCOPES_PER_SOCKET MATCH_SCOPES
#define LIMIT_SCOPE_BITS 15 /* of the number of a scope */
#define LIMIT_COST_SHIFT 24
#define LIMIT_UNIT_SHIFT 12
#define LIMIT_QUEUE_BUCKETS 32

enum limit_direction { LIMIT_EGRESS = 0, LIMIT_INGRESS = 1 };

enum limit_flags {
	LIMIT_ENFORCED = 1, /* the rate is in force; without it the direction is not limited */
	LIMIT_SHADOW = 2,   /* count what would be done, do nothing */
	LIMIT_CLASSIC = 4,  /* the talk's algorithm: no explicit-rate pacing */
	LIMIT_LOOPBACK = 8, /* charge loopback traffic too */
};

/* Written by the controller alone. */
struct limit_config {
	__u64 cost;       /* ns per octet, times 2^LIMIT_COST_SHIFT */
	__u64 rate;       /* octet/s */
	__u64 burst_ns;   /* how far an idle scope may run ahead */
	__u64 mark_ns;    /* virtual queue above which ECN marks and reductions begin */
	__u64 drop_ns;    /* virtual queue above which packets are refused */
	__u64 reserve_ns; /* the last part of the queue, kept for small packets */
	__u32 flags;      /* enum limit_flags */
	__u32 overhead;   /* octets of link overhead per wire packet, beyond the IP packet */
	__u64 min;        /* octet/s that the parent keeps for the scope; 0 for none */
	__u64 min_cost;   /* ns per octet at min, times 2^LIMIT_COST_SHIFT */
	__u32 weight;     /* part in what the parent has, against its siblings' weights; 0 without a parent */
	__u32 quota;      /* octets that a socket may be charged for in advance; 0 for none */
};

/* Written by the data plane, by atomic operations alone; one cache line. */
struct limit_state {
	__s64 finish_ns;       /* virtual finish time of the last admitted packet, CLOCK_MONOTONIC */
	__u64 fair_rate;       /* octet/s that one flow may send at */
	__u64 interval_start_ns; /* of the current rate measurement */
	__u64 interval_bytes;    /* octets offered in it */
	__u32 updates;         /* of fair_rate */
	__u32 flow_count;          /* number of the count of TCP senders that goes on */
	__s64 interval_queue_ns; /* the shortest queue that a packet has met in it */
	__u64 interval_largest;  /* octets of the largest packet in it */
	__u64 interval_least_ns;   /* the least length of it */
};

/* What a scope with a parent may use of it, and what a parent lets its children have. Written by the data plane alone. */
struct limit_fair_share {
	__s64 guaranteed_ns; /* virtual finish time of the last packet at rate min, CLOCK_MONOTONIC */
	__u64 allowed;       /* octet/s that a child may use now; 0 before its first interval */
	__u64 cost;          /* ns per octet at that rate, times 2^LIMIT_COST_SHIFT */
	__u64 unit;          /* octet/s that a parent gives a child per unit of weight, times 2^LIMIT_UNIT_SHIFT */
	__u64 slowest_ns;    /* the longest interval in which one of its children follows, forgotten slowly; 0 without children */
	__u32 congested;       /* whether children's traffic has met half the drop threshold in the current window */
	__u32 rtt_us;       /* round trip of the senders, without queues: a mean of those last counted; 0 before the first */
	__u32 counted;       /* TCP senders that the current census has met */
	__u32 senders;       /* TCP senders that the last one has met; 0 before, and after a silence */
	__u64 flow_count_bytes;  /* octets offered in the current census */
	__u64 earlier;       /* octet/s that one flow could send at before the fair rate was last moved */
};

/* Where a scope stands in the tree. */
struct limit_node {
	__u32 parent; /* scope + 1; 0 for none */
	__u32 depth;  /* scopes above */
};

/* Per CPU, written by the data plane alone. */
struct limit_counters {
	__u64 packets;  /* as the stack hands them over: GSO super-packets count once */
	__u64 segments; /* as they go on the wire */
	__u64 bytes;    /* wire octets admitted */
	__u64 marked;   /* CE set */
	__u64 reduced;  /* congestion-window reductions asked for */
	__u64 refused;  /* egress: given back to the sender; ingress: dropped */
	__u64 forced;   /* admitted above the threshold because nothing was in flight */
	__u64 retries;  /* compare-and-swap contention */
	__u64 windows;  /* receive windows set */
	__u64 queue[LIMIT_QUEUE_BUCKETS]; /* packets by virtual queue: bucket i counts [2^i, 2^(i+1)) us, bucket 0 below 2 us */
};

/* Per CPU, written by the data plane alone. */
struct limit_rtt {
	__u64 count[LIMIT_QUEUE_BUCKETS]; /* samples of TCP's round-trip time, by the buckets of limit_counters */
	__u64 sum_us;
};

/* Read for every packet. */
struct limit_settings {
	__u32 generation; /* of the assignment of scopes; sockets look theirs up again when it changes */
	__u32 kinds;      /* enum match_kind: those that have scopes */
	__u32 parents;    /* whether a scope has a parent */
	__u32 unused;
};

#endif
