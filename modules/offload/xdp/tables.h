/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables of the fast path, except the tree of lookup.h. */
#ifndef WEIR_OFFLOAD_TABLES_H
#define WEIR_OFFLOAD_TABLES_H

#include "fast.h"

/* Link by port and tag. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FAST_PORTS * FAST_VLANS);
	__type(key, __u32);
	__type(value, struct fast_input);
} fast_inputs SEC(".maps");

/* Next hops by decision; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_next);
} fast_nexts SEC(".maps");

/* Hops of multipath decisions; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_hop);
} fast_hops SEC(".maps");

/* Bloom filter of the router's own IPv4 addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FAST_OWN / 64);
	__type(key, __u32);
	__type(value, __u64);
} fast_own SEC(".maps");

/* One entry: end of the lease in nanoseconds of CLOCK_MONOTONIC. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} fast_lease SEC(".maps");

/* Forwarded packets by decision; 0 has those of former tables. Its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_count);
} fast_forwarded SEC(".maps");

/* Packets left to the CPU, by reason; then those of former tables. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * FAST_REASONS);
	__type(key, __u32);
	__type(value, struct fast_count);
} fast_left SEC(".maps");

/* Device by port number. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FAST_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} fast_ports SEC(".maps");

#endif
