/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared with Go; bpf2go generates the Go types from this header. A scope has two directions;
 * its index in every map is 2 * scope + direction.
 */
#ifndef WEIR_LIMIT_H
#define WEIR_LIMIT_H

#include <linux/types.h>

#include "../../../bpf/match.h"

#define LIMIT_SCOPES_PER_SOCKET MATCH_SCOPES

/* Compile-time constants: fixed-point formats, array sizes, units. */
enum limit_format {
	LIMIT_SCOPE_BITS = 15, /* bits of a scope number */
	LIMIT_COST_SHIFT = 24,
	LIMIT_UNIT_SHIFT = 12,
	LIMIT_QUEUE_BUCKETS = 32,
	LIMIT_FRAME = 1514, /* bytes of a full-sized Ethernet frame without FCS */
};

/* The numbers match internal/direction. */
enum limit_direction { LIMIT_EGRESS = 0, LIMIT_INGRESS = 1 };

enum limit_flags {
	LIMIT_ENFORCED = 1, /* the direction is limited */
	LIMIT_SHADOW = 2,   /* count only, change no packet */
	LIMIT_CLASSIC = 4,  /* no explicit-rate pacing: the algorithm of the LPC 2018 talk */
	LIMIT_LOOPBACK = 8, /* charge loopback traffic too */
};

/*
 * Constants of the algorithm. tunables.go sets them before the programs are loaded, so that the
 * verifier knows their values.
 */
struct limit_tunables {
	/* Thresholds. */
	__u32 small_octets;   /* bytes on the wire; packets up to this size (SYN, ACK, control) may use the reserve */
	__u32 burst_frames;   /* full-sized frames; minimum burst */
	__u32 mark_frames;    /* full-sized frames; minimum mark threshold */
	__u32 drop_frames;    /* full-sized frames; minimum drop threshold */
	__u32 reserve_frames; /* full-sized frames; minimum reserve */
	__u32 ceiling_drops;  /* drop thresholds above which every packet is dropped */

	/* Fair rate (fair.h). */
	__u32 target_share;           /* of 1024; share of the rate that the loop aims at */
	__u32 headroom_shift;         /* 2^-n of the target; headroom of the fair rate, since a flow does not use all of it */
	__u32 ingress_headroom_shift; /* 2^n targets; maximum fair rate at ingress, where RTTs exceed that of the handshake */
	__u32 max_offered;           /* of 512; a higher offered rate has no further effect */
	__u32 max_drained;           /* of 512; maximum share of the rate that drains a queue */
	__u32 tolerated_shift;        /* 2^-n RTT; a queue up to this length is not drained */
	__u32 max_doublings;         /* maximum doublings of the fair rate in one interval */
	__u32 prompt_frames;          /* full-sized frames per mark threshold from which flows follow within an interval */
	__u32 flow_count_super_packets; /* minimum super-packets in a flow count */
	__u32 flow_count_rtts;        /* RTTs at the full rate in a flow count: a restarting sender is counted one RTT later */
	__u64 max_interval_ns;       /* ns; maximum measurement interval */
	__u64 max_elapsed_ns;        /* ns; maximum elapsed time that an interval accounts for; the packet that ends it may be late */
	__u64 silence_ns;             /* ns without packets after which flow count and RTT expire */
	__u64 oversize_ns;            /* ns; maximum effect on the interval of super-packets longer than two segments */

	/* Fair share of a parent (fair_share.h). */
	__u64 min_allowed;       /* byte/s; minimum rate of a scope */
	__u64 min_unit;          /* byte/s times 2^LIMIT_UNIT_SHIFT; minimum unit, so that a factor close to one still changes it */
	__u64 max_follow_ns;      /* ns; slower children do not slow down the parent */
	__u32 max_congested;      /* of 1024; maximum factor of a parent with a long queue */
	__u32 max_rise;           /* of 1024; maximum factor of an idle parent, before it is softened */
	__u32 silent_intervals;    /* of its longest intervals without packets after which a parent is idle */
	__u32 max_ratio;          /* maximum ratio by which the rates of a child follow its parent in one interval */
	__u32 slowest_decay_shift; /* 2^-n; decay of the longest child interval per interval of the parent */

	/* TCP sockets (pacing.h); those of pace.h and receive_window.h are there. */
	__u32 rtt_mean_shift; /* 2^-n; weight of a sample in the mean RTT */

	/* Prepaid quota (quota.h). */
	__u32 quota_ticks; /* kernel ticks after the current one for which a quota is valid */
	__u32 unused;
};

/* Written by user space only, with everything that can be computed in advance (rate.go). */
struct limit_config {
	__u64 cost;           /* ns per byte, times 2^LIMIT_COST_SHIFT */
	__u64 rate;           /* octet/s */
	__u64 max_fair_rate; /* byte/s; maximum fair rate */
	__u64 burst_ns;       /* traffic that an idle scope may send at line rate, as time at the limit */
	__u64 mark_ns;        /* virtual queue above which ECN marks and cwnd reductions begin */
	__u64 large_ns;       /* virtual queue above which large packets are dropped: the drop threshold less the reserve */
	__u64 drop_ns;        /* virtual queue above which packets are dropped */
	__u64 ceiling_ns;     /* virtual queue above which every packet is dropped */
	enum limit_flags flags;
	__u32 overhead;       /* bytes of link overhead per wire packet, in addition to the IP packet */
	__u64 min;            /* byte/s guaranteed by the parent; 0 for none */
	__u64 min_cost;       /* ns per byte at min, times 2^LIMIT_COST_SHIFT */
	__u32 weight;         /* weight among the siblings; 0 without a parent */
	__u32 quota;          /* bytes that a socket may prepay; 0 for none */
};

/* Written by the data plane with atomic operations; one cache line. */
struct limit_state {
	__s64 finish_ns;         /* virtual finish time of the last admitted packet, CLOCK_MONOTONIC */
	__u64 fair_rate;         /* byte/s that one flow may send */
	__u64 interval_start_ns; /* of the current measurement interval, CLOCK_MONOTONIC */
	__u64 interval_bytes;    /* bytes offered in it */
	__u32 updates;           /* updates of fair_rate */
	__u32 flow_count;        /* number of the current count of TCP senders */
	__s64 interval_queue_ns; /* minimum queue at a packet of it */
	__u64 interval_largest;  /* bytes of the largest packet in it */
	__u64 min_interval_ns; /* minimum length of it */
};

/*
 * Fair share of a scope within its parent, and unit that a parent grants its children. Written by
 * the data plane only.
 */
struct limit_fair_share {
	__s64 guaranteed_ns;    /* virtual finish time of the last packet at rate min, CLOCK_MONOTONIC */
	__u64 allowed;          /* byte/s that a child may use now; 0 before its first interval */
	__u64 cost;             /* ns per byte at that rate, times 2^LIMIT_COST_SHIFT */
	__u64 unit;             /* byte/s per unit of weight that a parent grants a child, times 2^LIMIT_UNIT_SHIFT */
	__u64 slowest_ns;       /* longest interval in which one of its children follows, with decay; 0 without children */
	__u32 congested;        /* whether traffic of children has met half the drop threshold in the current interval */
	__u32 rtt_us;           /* mean RTT of the last counted senders, without queues; 0 before the first */
	__u32 counted;          /* TCP senders in the current flow count */
	__u32 senders;          /* TCP senders in the last one; 0 before, and after a silence */
	__u64 flow_count_bytes; /* bytes offered in the current flow count */
};

/* Position of a scope in the tree. */
struct limit_node {
	__u32 parent; /* scope + 1; 0 for none */
	__u32 depth;  /* number of scopes above */
};

/* Per CPU, written by the data plane only. counters.go sums all fields. */
struct limit_counters {
	__u64 packets;  /* admitted; a GSO super-packet counts once */
	__u64 segments; /* admitted packets on the wire */
	__u64 bytes;    /* admitted bytes on the wire */
	__u64 marked;   /* CE set */
	__u64 reduced;  /* requested congestion-window reductions */
	__u64 dropped;  /* egress: rejected with congestion notification (NET_XMIT_CN); ingress: dropped */
	__u64 forced;   /* admitted above the drop threshold because the sender would have waited for a timer */
	__u64 retries;  /* compare-and-swap contention */
	__u64 windows;  /* updates of TCP receive windows; ingress only */
	__u64 queue[LIMIT_QUEUE_BUCKETS]; /* packets by virtual queue: bucket i counts [2^i, 2^(i+1)) us, bucket 0 below 2 us */
};

/* Per CPU, written by the data plane only. */
struct limit_rtt {
	__u64 count[LIMIT_QUEUE_BUCKETS]; /* TCP RTT samples, in the buckets of limit_counters */
	__u64 sum_us;
};

/* Read for every packet. */
struct limit_settings {
	__u32 generation; /* of the assignment of scopes; when it changes, sockets look up their scopes again */
	__u32 kinds;      /* enum match_kind of all scopes */
	__u32 parents;    /* whether a scope has a parent */
	__u32 ingress;    /* whether a scope has a limit of ingress */
};

#endif
