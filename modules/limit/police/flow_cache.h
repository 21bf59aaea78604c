/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cached scopes of the last remote of a datagram socket.
 *
 * Such a socket may send anywhere, connected or not, on several CPUs at once. The scopes of its
 * last packet are kept in one word, and their key in three more, each XORed with the first: words
 * of different writers do not match, without a lock.
 */
#ifndef WEIR_LIMIT_FLOW_CACHE_H
#define WEIR_LIMIT_FLOW_CACHE_H

#include <linux/bpf.h>

#include "../../../bpf/match_packet.h"
#include "maps.h"
#include "packet.h"
#include "scopes.h"

/* Packs a generation or lookup number and an interface index. */
static __always_inline __u64 cache_key(__u32 number, __u32 interface)
{
	return (__u64)number << 32 | interface;
}

/* Returns the key of a packet within its socket. */
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
 * Looks up all scopes of a packet that belongs to no stream. known is 0 if its socket has no
 * storage. A global function, verified once.
 */
__attribute__((noinline)) __u64 lookup_flow_scopes(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
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
	lookup_path_scopes(skb, p, settings, &found);
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
