/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selects the one scope that decides about a packet: the innermost. A child precedes its parents,
 * any scope precedes the whole host, and otherwise the order of the table in match.h applies. A
 * shadow scope counts its decision and leaves the effect to the next scope.
 *
 * core/match fills scope_orders.
 */
#ifndef WEIR_MATCH_DECIDE_H
#define WEIR_MATCH_DECIDE_H

#include "match.h"

#define MATCH_NONE MATCH_SCOPES

enum match_depth {
	MATCH_MAX_DEPTH = 16, /* levels of parents that are compared */
};

enum match_order_flags {
	MATCH_ORDER_DECIDES = 1, /* the scope has a treatment */
	MATCH_ORDER_SHADOW = 2,  /* count only */
	MATCH_ORDER_HOST = 4,    /* the whole host: every other scope precedes it */
};

struct match_order {
	__u32 parent; /* number of the parent scope + 1; 0 for none */
	enum match_order_flags flags;
};

/* This use puts the type into BTF. */
const volatile enum match_depth scope_depth = MATCH_MAX_DEPTH;

/* Scope to its parent and flags. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct match_order);
} scope_orders SEC(".maps");

static __always_inline struct match_order *match_order_of(const struct match_scopes *found, __u32 at)
{
	return bpf_map_lookup_elem(&scope_orders, &found->scope[at & (MATCH_SCOPES - 1)]);
}

/* Reports whether scope one precedes other, which was found first. Global: verified once. */
__attribute__((noinline)) int match_before(__u32 one, __u32 other)
{
	struct match_order *order = bpf_map_lookup_elem(&scope_orders, &other);

	if (order && order->flags & MATCH_ORDER_HOST)
		return 1;
	for (int i = 0; i < MATCH_MAX_DEPTH; i++) {
		order = bpf_map_lookup_elem(&scope_orders, &one);
		if (!order || !order->parent)
			return 0;
		one = order->parent - 1;
		if (one == other)
			return 1;
	}
	return 0;
}

/* Returns the index of the scope that applies, or MATCH_NONE. `shadow` includes shadow scopes. */
static __always_inline __u32 match_decides(const struct match_scopes *found, int shadow)
{
	__u32 best = MATCH_NONE;

	for (__u32 i = 0; i < MATCH_SCOPES && i < found->count; i++) {
		struct match_order *order = match_order_of(found, i);

		if (!order || !(order->flags & MATCH_ORDER_DECIDES) || (!shadow && order->flags & MATCH_ORDER_SHADOW))
			continue;
		if (best == MATCH_NONE || match_before(found->scope[i], found->scope[best & (MATCH_SCOPES - 1)]))
			best = i;
	}
	return best;
}

#endif /* WEIR_MATCH_DECIDE_H */
