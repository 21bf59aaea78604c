/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scopes of where a datagram socket sends.
 *
 * Such a socket may send anywhere, connected or not, and several processors may use it at once.
 * What was found for its last packet is kept in one word, and the key that it was found by in three
 * more, each exclusive-ored with the first: words that were not written together do not fit a
 * packet, and nobody waits.
 */
#ifndef WEIR_LIMIT_FLOW_CACHE_H
#define WEIR_LIMIT_FLOW_CACHE_H

#include "scopes.h"

/* A generation of scopes, or the number of a look-up, and an interface. */
static __always_inline __u64 cache_key(__u32 number, __u32 interface)
{
	return (__u64)number << 32 | interface;
}

/* What a packet's scopes depend on beside its socket. */
static __always_inline struct flow_cache flow_key(struct __sk_buff *skb, const struct packet *p, __u32 kinds, __u32 number)
{
	struct flow_cache key = {.where = cache_key(number, kinds & MATCH_INTERFACES ? skb->ifindex : 0)};

	if (kinds & MATCH_PREFIXES) {
		key.high = (__u64)p->remote.address[0] << 32 | p->remote.address[1];
		key.low = (__u64)p->remote.address[2] << 32 | p->remote.address[3];
	}
	return key;
}

/*
 * Finds all scopes of a packet that belongs to no stream. known is 0 where its socket has no
 * storage. Global like find_rest, to be verified once.
 */
__attribute__((noinline)) __u64 find_all(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
					 struct socket_state *known)
{
	if (!p || !settings)
		return 0;
	struct match_scopes found = {};
	struct flow_cache key = {};

	if (known) {
		volatile struct flow_cache *last = &known->last;
		__u64 list = last->list;

		key = flow_key(skb, p, settings->kinds, *(volatile __u32 *)&known->number);
		if ((last->high ^ list) == key.high && (last->low ^ list) == key.low && (last->where ^ list) == key.where)
			return list;
		found = known->scopes;
	} else {
		match_own(skb, settings->kinds, &found);
	}
	find_rest(skb, p, settings, &found);
	__u64 list = pack(&found);

	if (known) {
		volatile struct flow_cache *last = &known->last;

		last->list = list;
		last->high = key.high ^ list;
		last->low = key.low ^ list;
		last->where = key.where ^ list;
	}
	return list;
}

#endif
