/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of limits by delay share with Go, which bpf2go generates from here. A line is
 * one limit: the key of its maps is the index of the device at whose egress packets are charged, or
 * DELAY_SCOPE and twice the number of a scope and a direction.
 */
#ifndef WEIR_DELAY_H
#define WEIR_DELAY_H

#include "../limit.h"

#define DELAY_CHANCE_SHIFT 48 /* chances are of 2^48 */

enum delay_format {
	DELAY_LINES_OF_PACKET = 4, /* that a packet is charged to */
	DELAY_UNIT_SHIFT = 16,     /* weights */
	DELAY_FLOWS_SHIFT = 10,    /* numbers of flows */
	DELAY_FLOWS = 16384,       /* that have a queue of their own, of all lines together */
	DELAY_SLOTS = 64,          /* of time, from now to the latest departure */
};

enum delay_flags {
	DELAY_STAMP = 1,    /* fq keeps the packet until its departure time; without it an HTB class waits as long */
	DELAY_RECEIVED = 2, /* packets that were received: their sender is elsewhere */
};

/* Written by the controller alone. What C needs for every packet is computed there (line.go). */
struct delay_config {
	__u64 cost;         /* ns per octet, times 2^LIMIT_COST_SHIFT */
	__u64 burst_ns;     /* how far an idle line may run ahead */
	__u64 mark_ns;      /* delay from which packets are marked and TCP senders notified */
	__u64 early_ns;     /* delay from which what cannot be marked is dropped by chance */
	__u64 standing_ns;  /* the same of TCP whose queue stands; without fq the horizon, which is never */
	__u64 horizon_ns;   /* delay beyond which packets are dropped */
	__u64 reserve_ns;   /* delay beyond the horizon that small packets may have */
	__u64 notify_slope; /* chance of a notification for each ns beyond mark_ns, and of a drop beyond standing_ns */
	__u64 early_slope;  /* chance of an early drop for each ns beyond early_ns */
	__u64 interval_ns;  /* in which flows are counted */
	enum delay_flags flags;
	__u32 small_octets; /* octets on the wire; packets of no more have the reserve, and are not dropped early */
	__u32 parent;       /* key of the line that is charged too, without a rate in its place; 0 for none */
	__u32 weight;       /* of its part of the parent */
	__u32 unit;         /* 2^DELAY_UNIT_SHIFT / weight */
	__u32 rate;         /* octet/s */
	__u32 slot_shift;   /* slots of time are 2^slot_shift ns */
	__u32 unused;
};

/* Queue of a flow in a line, or of a child in its parent. Flows of one entry share a part. */
struct delay_flow {
	__s64 finish_ns; /* virtual finish time of its last packet at its fair part of the rate */
	__u32 interval;  /* in which it has used used_ns: interval_start_ns / 1024 */
	__u32 used_ns;   /* per unit of weight, or from DELAY_HELD on (flow.h) */
	__s64 departs_ns; /* its last packet, CLOCK_MONOTONIC */
	__s64 stands_ns;  /* since when its packets wait for standing_ns or more behind others of its own, alike; 0 if they do not */
};

/* Written by the programs alone. */
struct delay_state {
	__s64 finish_ns;         /* virtual finish time of the last packet, CLOCK_MONOTONIC: when the queue ends */
	__u64 interval_start_ns; /* of the count of flows, CLOCK_MONOTONIC */
	__u64 used_ns;           /* what flows have used in the interval, of their parts at most, times their weights */
	__u64 part_ns;           /* part of the interval that a flow of weight 1 may use */
	__u64 paced_ns;          /* what TCP flows that are paced, or held by their receivers, have used in the interval */
	__u32 flows;             /* that use their parts, times 2^DELAY_FLOWS_SHIFT; 0 before the first interval */
	__u32 fair_rate;         /* octet/s that a TCP flow is paced at, or held to; 0 before the first interval */
	__u32 wait_us;           /* the shortest that a packet of a paced flow has waited in the interval, in 1024 ns */
	__u32 senders;           /* paced or held flows that have sent since */
	__u32 since;             /* this interval, which is the last one in which nothing has waited; as in delay_flow */
	__u32 rtt_us;            /* round-trip time of the paced flows, without queues: a mean; 0 before the first */
	__u32 active;            /* paced or held flows that have sent in the interval */
	__u32 unused;
	struct delay_flow part;  /* its queue in its parent */
	/*
	 * By slot of time, until when it is taken by packets that depart in it ahead of the queue: of
	 * others, of paced flows. One before the slot's begin is none of its.
	 */
	__s64 ahead_ns[2][DELAY_SLOTS];
};

/* What the sender of a TCP flow is to be told. Flows that share an entry are told of the later. */
struct delay_notice {
	__s64 from_ns; /* departure time of its last packet less the mark threshold, CLOCK_MONOTONIC */
	__u32 line;    /* key of the line that it waited for */
	__u32 unused;
};

/* Per CPU, written by the programs alone. */
struct delay_counters {
	struct limit_counters passed; /* refused are those beyond the horizon, queue the delays given */
	__u64 delayed; /* packets that had to wait */
	__u64 early;   /* dropped by chance, since they could not be marked */
	__u64 ahead;   /* departed ahead of the queue, within their flow's part */
};

/* Read for every packet. */
struct delay_settings {
	__u32 kinds;    /* enum match_kind: those that have scopes */
	__u32 receives; /* whether senders are held, so that receivers are asked for the callback with each acknowledgement */
};

#endif
