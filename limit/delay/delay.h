/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of limits by delay share with Go, which bpf2go generates from here. Every map's
 * key is the index of the device at whose egress packets are charged.
 */
#ifndef WEIR_DELAY_H
#define WEIR_DELAY_H

#include "../limit.h"

#define DELAY_CHANCE_SHIFT 48 /* chances are of 2^48 */

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
	__u64 horizon_ns;   /* delay beyond which packets are dropped */
	__u64 reserve_ns;   /* delay beyond the horizon that small packets may have */
	__u64 notify_slope; /* chance of a notification for each ns beyond mark_ns */
	__u64 early_slope;  /* chance of an early drop for each ns beyond early_ns */
	enum delay_flags flags;
	__u32 small_octets; /* octets on the wire; packets of no more have the reserve, and are not dropped early */
};

/* Per CPU, written by the programs alone. */
struct delay_counters {
	struct limit_counters passed; /* refused are those beyond the horizon, queue the delays given */
	__u64 delayed; /* packets that had to wait */
	__u64 early;   /* dropped by chance, since they could not be marked */
};

#endif
