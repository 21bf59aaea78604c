/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps of the policer. Those with max_entries 1 or 2 per scope are resized at load time. */
#ifndef WEIR_LIMIT_MAPS_H
#define WEIR_LIMIT_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/match.h"
#include "limit.h"
#include "pace.h"
#include "receive_window.h"

/* Set before the programs are loaded. */
const volatile struct limit_tunables tuned = {};

/* References that put the types into BTF. */
const volatile enum limit_format limit_formats = LIMIT_COST_SHIFT;
const volatile enum limit_direction limit_directions = LIMIT_EGRESS;

/*
 * Bytes that a socket has prepaid (quota.h). A packet spends bytes by compare-and-swap of word,
 * which validates the fields it has read before. The count is odd during a renewal.
 */
struct quota {
	__u64 word;     /* count of renewals times 2, and the remaining bytes in the low half */
	__u64 list;     /* packed scopes */
	__u64 where;    /* generation of the scopes, and the interface index for which it is valid */
	__u32 paid;     /* prepaid bytes; during a renewal, the maximum of the next quota */
	__u32 until;    /* last tick at which it is valid */
	__u32 overhead; /* bytes of link overhead per wire packet */
	__u16 charged;  /* bit i: scope i is prepaid */
	__u16 each;     /* bit i: scope i is charged per packet */
};

/* Scopes of the last remote of a datagram socket (flow_cache.h), packed. */
struct flow_cache {
	__u64 list;
	__u64 high, low; /* remote address; every field except list is XORed with list */
	__u64 where;     /* number of the socket's lookup, and the interface index */
};

/* State of a socket. */
struct socket_state {
	struct match_scopes scopes; /* all scopes of a stream, or those of another socket itself */
	__u32 generation;           /* as in limit_settings; its complement if marks have scopes; 0 before the first lookup */
	__u32 number;               /* number of lookups; invalidates cached results of earlier ones */
	__u32 mark;                 /* SO_MARK at the lookup */
	__u32 stream;               /* all its packets have the same remote */
	__u64 list[2];              /* packed scopes of a stream, by direction */
	__u32 device[2];            /* interface index for which they are valid: routes move */
	struct flow_cache last;
	struct paced paced;
	struct clamped_window held;
	__u32 dropped_end;          /* sequence number after the last segment that was dropped at ingress */
	__s64 dropped_ns;           /* time of the last drop, CLOCK_MONOTONIC; 0 for never */
	__u8 crowded;               /* a retransmission was dropped too */
	__u8 loopback;              /* its last packet used lo */
	__u32 pace_version;         /* pace_version() at the last pacing; 0 while it is limited */
	struct quota quota[2];      /* by direction */
	__u32 counted[LIMIT_SCOPES_PER_SOCKET]; /* flow count of each scope that last counted it, plus one */
};

/* Settings, such as the kinds of scopes in use; others cost no lookup. */
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

/* Fair shares of children within their parents. */
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

/* Counters. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_counters);
} limit_counts SEC(".maps");

/* RTTs of the scopes' TCP connections, by scope: both directions share a path. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limit_rtt);
} limit_rtts SEC(".maps");

/* State of each socket with a scope lookup. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_state);
} limit_sockets SEC(".maps");

/* Returns the state of the packet's local socket; 0 for none. */
static __always_inline struct socket_state *socket_state_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return sk ? bpf_sk_storage_get(&limit_sockets, sk, 0, 0) : 0;
}

#endif
