/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Longest-prefix match in a tree of blocks of 256 entries, one per value of the next byte:
 *
 *     block a[0] of the family --a[1]--> entry --a[2]--> entry --a[3]--> ...
 *
 * until an entry is a decision.
 *
 * An IPv4 route of up to 16 bits takes one memory access, of up to 24 bits two. A longer prefix
 * overwrites a shorter one in all its entries, so no lookup goes back. Entries are written
 * atomically: an address always has its old or its new decision.
 */
#ifndef WEIR_OFFLOAD_LOOKUP_H
#define WEIR_OFFLOAD_LOOKUP_H

#include "fast.h"

/* The tree of both families; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * FAST_ROOT);
	__type(key, __u32);
	__type(value, struct fast_block);
} fast_blocks SEC(".maps");

static __always_inline __u32 fast_entry_at(__u32 block, __u8 octet)
{
	const struct fast_block *b = bpf_map_lookup_elem(&fast_blocks, &block);

	return b ? *(const volatile __u32 *)&b->entry[octet] : 0;
}

static __always_inline __u32 fast_lookup4(const __u8 *a)
{
	__u32 entry = fast_entry_at(a[0], a[1]);

	if (entry & FAST_CHILD)
		entry = fast_entry_at(entry & ~FAST_CHILD, a[2]);
	if (entry & FAST_CHILD)
		entry = fast_entry_at(entry & ~FAST_CHILD, a[3]);
	return entry;
}

static __always_inline __u32 fast_lookup6(const __u8 *a)
{
	__u32 entry = fast_entry_at(FAST_ROOT + a[0], a[1]);

	for (int i = 2; i < 16; i++) {
		if (!(entry & FAST_CHILD))
			break;
		entry = fast_entry_at(entry & ~FAST_CHILD, a[i]);
	}
	return entry;
}

#endif
