/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tables of the fast path but for the tree, which is in lookup.h. */
#ifndef WEIR_OFFLOAD_TABLES_H
#define WEIR_OFFLOAD_TABLES_H

#include "fast.h"

/* Port and tag to the link. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FAST_PORTS * FAST_VLANS);
	__type(key, __u32);
	__type(value, struct fast_input);
} fast_inputs SEC(".maps");

/* Decision to what becomes of its packets; its size is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_next);
} fast_nexts SEC(".maps");

/* Ways of decisions that have several; its size is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_hop);
} fast_hops SEC(".maps");

/* Bits of hashes of the router's own IPv4 addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FAST_OWN / 64);
	__type(key, __u32);
	__type(value, __u64);
} fast_own SEC(".maps");

/* One entry: nanoseconds of CLOCK_MONOTONIC. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} fast_lease SEC(".maps");

/* Packets forwarded, by decision, of which 0 has those of the tables before this one; its size is
 * set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_count);
} fast_forwarded SEC(".maps");

/* Packets left to the CPU, by reason; behind them those of the tables before this one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * FAST_REASONS);
	__type(key, __u32);
	__type(value, struct fast_count);
} fast_left SEC(".maps");

/* Ports by their numbers. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FAST_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} fast_ports SEC(".maps");

#endif
