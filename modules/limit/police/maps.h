/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of the limit data plane. Sizes of 1 and 2 are set when they are loaded. */
#ifndef WEIR_LIMIT_MAPS_H
#define WEIR_LIMIT_MAPS_H

#include "../../../bpf/match.h"
#include "limit.h"
#include "receive_window.h"

/* Set before the programs are loaded. */
const volatile struct limit_tunables tuned = {};

/* Used here, so that BTF has the types. */
const volatile enum limit_format limit_formats = LIMIT_COST_SHIFT;
const volatile enum limit_direction limit_directions = LIMIT_EGRESS;

/*
 * Octets that scopes were charged for and that a socket has not sent yet (quota.h). A packet takes
 * octets by compare-and-swap of the word, so that what it has read beside belongs to it; the number
 * is odd while the rest is renewed.
 */
struct quota {
	__u64 word;     /* how often it was renewed, twice, and octets left in the low half */
	__u64 list;     /* the scopes, packed */
	__u64 where;    /* generation of the scopes, and the index of the interface that the octets are good for */
	__u32 paid;     /* octets charged; while it is renewed, how many may be next */
	__u32 until;    /* the last tick at which they are good */
	__u32 overhead; /* octets of link overhead per wire packet */
	__u16 charged;  /* bit i: scope i was charged */
	__u16 each;     /* bit i: it is charged for each packet */
};

/* The scopes of where a datagram socket has sent to or heard from last (flow_cache.h), packed. */
struct flow_cache {
	__u64 list;
	__u64 high, low; /* the other end's address; all but list is exclusive-ored with that */
	__u64 where;     /* number of the socket's look-up, and the interface's index */
};

/* What is kept of a socket. */
struct socket_state {
	struct match_scopes scopes; /* all of a stream, the socket's own of another */
	__u32 generation;           /* of the scopes, as in limit_settings, its complement where marks have scopes; 0 before they were looked up */
	__u32 number;               /* of look-ups, so that what followed from another is not taken for the last one's */
	__u32 mark;                 /* SO_MARK when they were looked up */
	__u32 stream;               /* its packets all go to one remote */
	__u64 list;                 /* the scopes of a stream, packed */
	struct flow_cache last;
	struct paced paced;
	struct held_window held;
	__u32 dropped_end;          /* sequence number behind the last segment that was dropped at ingress */
	__s64 dropped_ns;           /* when a segment was dropped, CLOCK_MONOTONIC; 0 for never */
	__u8 crowded;               /* a segment that was sent again was dropped too */
	__u8 loopback;              /* its last packet went over lo */
	__u32 pace_version;         /* version() when its pace was last seen to, 0 while it is limited */
	struct quota quota[2];      /* by direction */
	__u32 counted[LIMIT_SCOPES_PER_SOCKET]; /* the flow count of each scope that last met it, plus one */
};

/* Which kinds of scope exist, so that the others cost nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limit_settings);
} limit_current SEC(".maps");

/* Packets of more than LIMIT_SCOPES_PER_SOCKET scopes; the outermost were not charged. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} limit_overflow SEC(".maps");

/* Rates and thresholds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_config);
} limit_configs SEC(".maps");

/* Virtual queues. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_state);
} limit_states SEC(".maps");

/* What children may use of their parents: their fair shares. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_fair_share);
} limit_shares SEC(".maps");

/* The tree of scopes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limit_node);
} limit_tree SEC(".maps");

/* What was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_counters);
} limit_counts SEC(".maps");

/*
 * Round-trip times of the scopes' TCP connections, by scope: their paths are one in both
 * directions.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limit_rtt);
} limit_rtts SEC(".maps");

/* Every socket whose scopes were looked up. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_state);
} limit_sockets SEC(".maps");

/* The state of a packet's socket, the sender's or the receiver's; 0 for none. */
static __always_inline struct socket_state *socket_state_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return sk ? bpf_sk_storage_get(&limit_sockets, sk, 0, 0) : 0;
}

#endif
