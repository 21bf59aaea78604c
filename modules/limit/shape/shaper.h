/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared by the shaping programs and Go (bpf2go generates the Go types from this file).
 *
 * A shaper is one rate limit. Its key in every map is the index of the device with the
 * shaped egress, or SHAPER_SCOPE | scope << 1 | direction (lookup.h).
 */
#ifndef WEIR_SHAPE_SHAPER_H
#define WEIR_SHAPE_SHAPER_H

#include <linux/types.h>

#include "../police/limit.h"

#define SHAPER_CHANCE_SHIFT 48 /* probabilities are in units of 2^-48 */

enum shaper_format {
	SHAPERS_PER_PACKET = 4,  /* shapers; a packet is charged to no more */
	SHAPER_UNIT_SHIFT = 16,  /* fixed point of weights */
	SHAPER_FLOWS_SHIFT = 10, /* fixed point of flow counts */
	SHAPER_FLOWS = 16384,    /* per-flow queues, all shapers together */
	SHAPER_SLOTS = 64,       /* time slots from now to the latest departure */
};

enum shaper_flags {
	SHAPER_STAMP = 1,    /* fq delays each packet until its departure time; without it an HTB class does */
	SHAPER_RECEIVED = 2, /* ingress, shaped at an ifb: the senders are remote */
};

/* Written by the controller only; it computes the per-packet factors (shaper.go). */
struct shaper_config {
	__u64 cost;         /* ns per byte, times 2^LIMIT_COST_SHIFT */
	__u64 burst_ns;     /* ns; time an idle shaper may run ahead */
	__u64 mark_ns;      /* ns of delay; CE marks and TCP notifications begin here */
	__u64 early_ns;     /* ns of delay; random drops of non-ECT packets begin here */
	__u64 standing_ns;  /* ns of delay; the same for TCP flows with a standing queue; horizon_ns (never) without fq */
	__u64 horizon_ns;   /* ns of delay; packets beyond it are dropped */
	__u64 reserve_ns;   /* ns beyond horizon_ns granted to small packets */
	__u64 notify_slope; /* probability (2^-48) per ns: of a notification beyond mark_ns, of a drop beyond standing_ns */
	__u64 early_slope;  /* probability (2^-48) per ns beyond early_ns: of an early drop */
	__u64 interval_ns;  /* ns; length of a flow-count interval */
	enum shaper_flags flags;
	__u32 small_bytes;  /* wire bytes; packets up to this size use the reserve and skip early drops */
	__u32 parent;       /* key of the parent shaper, charged too; with rate 0, charged instead; 0: none */
	__u32 weight;       /* relative weight within the parent */
	__u32 unit;         /* 2^SHAPER_UNIT_SHIFT / weight */
	__u32 rate;         /* bytes/s */
	__u32 slot_shift;   /* log2 of a slot's length in ns */
	__u32 unused;
};

/* Virtual queue of a flow in a shaper, or of a child in its parent. Colliding flows share one. */
struct shaper_flow {
	__s64 finish_ns;    /* ns, CLOCK_MONOTONIC: virtual finish time of the last packet at the fair share */
	__u32 interval;     /* 1024 ns: interval_start_ns >> 10 of the interval that used_ns belongs to */
	__u32 used_ns;      /* ns of link time per unit of weight; >= LOCAL_AGING is a state (fair_queue.h) */
	__s64 departure_ns; /* ns, CLOCK_MONOTONIC: departure time of the last packet */
	__s64 standing_since_ns; /* ns, CLOCK_MONOTONIC: start of the flow's standing queue; 0: none */
};

/*
 * Written by the programs only. A paced flow is a TCP flow with a sender that is paced on this
 * host, or a receiver on this host with a receive window set by Weir (pacing.h).
 */
struct shaper_state {
	__s64 finish_ns;         /* ns, CLOCK_MONOTONIC: virtual finish time of the last packet, the end of the queue */
	__u64 interval_start_ns; /* ns, CLOCK_MONOTONIC: start of the flow-count interval */
	__u64 used_ns;           /* ns of link time in the interval: sum over unpaced flows, capped at each share, times weight */
	__u64 share_ns;          /* ns of link time per interval: fair share of a flow of weight 1 */
	__u64 paced_ns;          /* ns of link time in the interval, all paced flows */
	__u32 flows;             /* active flows, times 2^SHAPER_FLOWS_SHIFT; 0 before the first interval */
	__u32 fair_rate;         /* bytes/s of one paced flow; 0 before the first interval */
	__u32 wait_us;           /* 1024 ns: shortest wait of a paced packet in the interval */
	__u32 senders;           /* paced flows seen since since_interval */
	__u32 since_interval;    /* 1024 ns, as shaper_flow.interval: last interval without a queue */
	__u32 rtt_us;            /* us: mean base RTT of the paced flows; 0 before the first sample */
	__u32 active;            /* paced flows seen in the interval */
	__u32 unused;
	struct shaper_flow in_parent; /* this shaper's queue in its parent */
	/*
	 * ns, CLOCK_MONOTONIC, per slot: end of the link time that packets ahead of the queue occupy;
	 * [0] unpaced flows, [1] paced flows. A value before the slot's start means that it is free.
	 */
	__s64 ahead_ns[2][SHAPER_SLOTS];
};

/* Pending notification of a local TCP sender; colliding flows share the later one. */
struct shaper_notice {
	__s64 from_ns; /* ns, CLOCK_MONOTONIC: departure time of the flow's last packet minus mark_ns */
	__u32 shaper;  /* key of the shaper that delayed that packet */
	__u32 unused;
};

/* Packets, per CPU; written by the programs only. */
struct shaper_counters {
	struct limit_counters passed; /* .refused: dropped beyond the horizon; .queue: histogram of delays */
	__u64 delayed; /* packets with a departure time in the future */
	__u64 early;   /* packets dropped at random before the horizon */
	__u64 ahead;   /* packets that departed before the end of the queue, within their fair share */
};

/* Read for every packet. */
struct shaper_settings {
	__u32 kinds;    /* bit set of enum match_kind: selectors in use */
	__u32 receives; /* boolean: receive windows are set, so sockets need the header-option callback */
};

#endif
