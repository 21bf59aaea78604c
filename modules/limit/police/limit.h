/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the limit data plane shares with Go, which bpf2go generates from here. A scope has two
 * directions; the index of one in every map is 2 * scope + direction.
 */
#ifndef WEIR_LIMIT_H
#define WEIR_LIMIT_H

#define LIMIT_SCOPES_PER_SOCKET MATCH_SCOPES

/* What is fixed when the programs are compiled: fixed-point formats, sizes of arrays, units. */
enum limit_format {
	LIMIT_SCOPE_BITS = 15, /* of the number of a scope */
	LIMIT_COST_SHIFT = 24,
	LIMIT_UNIT_SHIFT = 12,
	LIMIT_QUEUE_BUCKETS = 32,
	LIMIT_FRAME = 1514, /* octets of a full-sized Ethernet frame without FCS */
};

/* internal/direction has the same numbers. */
enum limit_direction { LIMIT_EGRESS = 0, LIMIT_INGRESS = 1 };

enum limit_flags {
	LIMIT_ENFORCED = 1, /* the rate is in force; without it the direction is not limited */
	LIMIT_SHADOW = 2,   /* count what would be done, do nothing */
	LIMIT_CLASSIC = 4,  /* the talk's algorithm: no explicit-rate pacing */
	LIMIT_LOOPBACK = 8, /* charge loopback traffic too */
};

/*
 * The algorithm's constants, which tunables.go sets before the programs are loaded, so that the
 * verifier knows their values.
 */
struct limit_tunables {
	/* Thresholds. */
	__u32 small_octets;   /* octets on the wire; packets of no more may use the reserve: SYN, ACK, control */
	__u32 burst_frames;   /* full-sized frames; the least burst */
	__u32 mark_frames;    /* full-sized frames; the least mark threshold */
	__u32 drop_frames;    /* full-sized frames; the least drop threshold */
	__u32 reserve_frames; /* full-sized frames; the least reserve */
	__u32 ceiling_drops;  /* drop thresholds, beyond which every packet is dropped */

	/* Fair rate (fair.h). */
	__u32 target_share;           /* of 1024; the part of the rate that is aimed at */
	__u32 headroom_shift;         /* 2^-n of the target, by which the fair rate may pass it: a flow does not use all that it may */
	__u32 ingress_headroom_shift; /* 2^n targets; the highest fair rate at ingress, where round trips become longer than the handshake's */
	__u32 offered_most;           /* of 512; a rate offered beyond that says no more of the number of flows */
	__u32 drained_most;           /* of 512; the most of the rate that a queue is drained with */
	__u32 tolerated_shift;        /* 2^-n of a round trip; a queue so long is not drained */
	__u32 doublings_most;         /* doublings in one interval: from the least fair rate to the whole */
	__u32 prompt_frames;          /* full-sized frames in a mark threshold, from which on flows follow within an interval */
	__u32 flow_count_super_packets; /* super-packets in a flow count at least */
	__u32 flow_count_rtts;        /* round trips at the whole rate in one: a sender that begins again is heard of a trip later */
	__u64 interval_most_ns;       /* ns; the longest measurement interval */
	__u64 elapsed_most_ns;        /* ns that an interval is taken for: the packet that ends the longest is late by some of it */
	__u64 silence_ns;             /* ns, after which nothing is known of the senders */
	__u64 oversize_ns;            /* ns; the most that a super-packet longer than a pair of segments makes of an interval */

	/* Fair share of a parent (fair_share.h). */
	__u64 allowed_least;       /* octet/s; the lowest limit that a scope can have */
	__u64 unit_least;          /* octet/s, times 2^LIMIT_UNIT_SHIFT, so that a factor close to one still moves it */
	__u64 follow_most_ns;      /* ns; a child that follows later does not slow the others down */
	__u32 congested_most;      /* of 1024; the factor of a parent whose queue has run up */
	__u32 rise_most;           /* of 1024; the factor of a parent that is not used at all, before it is softened */
	__u32 silent_intervals;    /* of its longest intervals, after which a parent without packets is not used */
	__u32 ratio_most;          /* by which a child's rates follow its parent in one interval */
	__u32 slowest_decay_shift; /* 2^-n of the longest interval of a child, by which it is forgotten in each of the parent's */

	/* TCP sockets (pacing.h); those of pace.h and receive_window.h are there. */
	__u32 rtt_mean_shift; /* 2^-n; what a sample weighs in the mean round-trip time */

	/* Prepaid quota (quota.h). */
	__u32 quota_ticks; /* ticks of the kernel after this one, for which a quota is good */
	__u32 unused;
};

/* Written by the controller alone. What C needs for every packet is computed there (rate.go). */
struct limit_config {
	__u64 cost;           /* ns per octet, times 2^LIMIT_COST_SHIFT */
	__u64 rate;           /* octet/s */
	__u64 fair_rate_most; /* octet/s; the highest fair rate */
	__u64 burst_ns;       /* how far an idle scope may run ahead */
	__u64 mark_ns;        /* virtual queue above which ECN marks and reductions begin */
	__u64 large_ns;       /* virtual queue above which large packets are dropped: the drop threshold less the reserve */
	__u64 drop_ns;        /* virtual queue above which packets are dropped */
	__u64 ceiling_ns;     /* virtual queue above which packets are dropped whatever their sender */
	enum limit_flags flags;
	__u32 overhead;       /* octets of link overhead per wire packet, beyond the IP packet */
	__u64 min;            /* octet/s that the parent keeps for the scope; 0 for none */
	__u64 min_cost;       /* ns per octet at min, times 2^LIMIT_COST_SHIFT */
	__u32 weight;         /* share of what the parent has, against its siblings' weights; 0 without a parent */
	__u32 quota;          /* octets that a socket may be charged for in advance; 0 for none */
};

/* Written by the data plane, by atomic operations alone; one cache line. */
struct limit_state {
	__s64 finish_ns;         /* virtual finish time of the last admitted packet, CLOCK_MONOTONIC */
	__u64 fair_rate;         /* octet/s that one flow may send at */
	__u64 interval_start_ns; /* of the current measurement interval, CLOCK_MONOTONIC */
	__u64 interval_bytes;    /* octets offered in it */
	__u32 updates;           /* of fair_rate */
	__u32 flow_count;        /* number of the current count of TCP senders */
	__s64 interval_queue_ns; /* the shortest queue that a packet has met in it */
	__u64 interval_largest;  /* octets of the largest packet in it */
	__u64 interval_least_ns; /* the least length of it */
};

/*
 * What a scope with a parent may use of it, and what a parent lets its children have. Written by
 * the data plane alone.
 */
struct limit_fair_share {
	__s64 guaranteed_ns;    /* virtual finish time of the last packet at rate min, CLOCK_MONOTONIC */
	__u64 allowed;          /* octet/s that a child may use now; 0 before its first interval */
	__u64 cost;             /* ns per octet at that rate, times 2^LIMIT_COST_SHIFT */
	__u64 unit;             /* octet/s that a parent gives a child per unit of weight, times 2^LIMIT_UNIT_SHIFT */
	__u64 slowest_ns;       /* the longest interval in which one of its children follows, forgotten slowly; 0 without children */
	__u32 congested;        /* whether children's traffic has met half the drop threshold in the current interval */
	__u32 rtt_us;           /* round-trip time of the senders, without queues: a mean of those last counted; 0 before the first */
	__u32 counted;          /* TCP senders that the current flow count has met */
	__u32 senders;          /* TCP senders that the last one has met; 0 before, and after a silence */
	__u64 flow_count_bytes; /* octets offered in the current flow count */
};

/* Where a scope stands in the tree. */
struct limit_node {
	__u32 parent; /* scope + 1; 0 for none */
	__u32 depth;  /* scopes above */
};

/* Per CPU, written by the data plane alone. counters.go sums whatever is here. */
struct limit_counters {
	__u64 packets;  /* admitted, as the stack hands them over: GSO super-packets count once */
	__u64 segments; /* admitted, as they go on the wire */
	__u64 bytes;    /* octets admitted, on the wire */
	__u64 marked;   /* CE set */
	__u64 reduced;  /* congestion-window reductions asked for */
	__u64 dropped;  /* egress: rejected with congestion notification (NET_XMIT_CN); ingress: dropped */
	__u64 forced;   /* admitted above the drop threshold, since their sender would have waited for a timer */
	__u64 retries;  /* compare-and-swap contention */
	__u64 windows;  /* receive windows of TCP sockets set; ingress alone */
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
	__u32 ingress;    /* whether a scope has a limit of ingress */
};

#endif
