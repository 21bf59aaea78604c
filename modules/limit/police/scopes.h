/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Scopes of a packet. */
#ifndef WEIR_LIMIT_SCOPES_H
#define WEIR_LIMIT_SCOPES_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#include "owner.h" /* before match_packet.h */

#include "../../../bpf/match_packet.h"
#include "fair_share.h"
#include "maps.h"
#include "packet.h"

#define SOCK_RAW 3
#define COUNT_BITS 3
#define TOO_MANY (LIMIT_SCOPES_PER_SOCKET + 1) /* count of more scopes */
#define SCOPE_MASK ((1 << LIMIT_SCOPE_BITS) - 1)

static __always_inline __u32 depth_of(__u32 scope)
{
	struct limit_node *node = bpf_map_lookup_elem(&limit_tree, &scope);

	return node ? node->depth : 0;
}

/* Adds the parents of the scopes found, each once, and sorts children before their parents. */
static __always_inline void add_parents(struct match_scopes *found)
{
	__u32 depth[LIMIT_SCOPES_PER_SOCKET] = {};

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET && i < found->count; i++) {
		__u32 parent = parent_of(found->scope[i]), twice = 0;

		depth[i] = depth_of(found->scope[i]);
		for (int j = 0; j < LIMIT_SCOPES_PER_SOCKET; j++)
			twice |= j < found->count && found->scope[j] + 1 == parent;
		if (parent && !twice) {
			parent--;
			match_add(found, &parent);
		}
	}
	for (int round = 1; round < LIMIT_SCOPES_PER_SOCKET; round++)
		for (int i = 0; i + round < LIMIT_SCOPES_PER_SOCKET; i++) {
			if (i + 1 >= found->count || depth[i] >= depth[i + 1])
				continue;
			__u32 scope = found->scope[i], deep = depth[i];

			found->scope[i] = found->scope[i + 1];
			found->scope[i + 1] = scope;
			depth[i] = depth[i + 1];
			depth[i + 1] = deep;
		}
}

/*
 * Adds the scopes of the path of a packet, then the parents of all. A global function, verified
 * once.
 */
__attribute__((noinline)) int lookup_path_scopes(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
					struct match_scopes *found)
{
	if (!p || !settings || !found)
		return 0;
	match_path(skb, &p->remote, settings->kinds, found);
	if (settings->parents)
		add_parents(found);
	if (found->count > TOO_MANY)
		found->count = TOO_MANY;
	return 0;
}

/* Packs the scopes of a packet into one word: the count and their numbers. */
static __always_inline __u64 pack(const struct match_scopes *found)
{
	__u64 list = found->count;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		list |= (__u64)(found->scope[i] & SCOPE_MASK) << (COUNT_BITS + i * LIMIT_SCOPE_BITS);
	return list;
}

static __always_inline int count_of(__u64 list)
{
	return list & ((1 << COUNT_BITS) - 1);
}

/* Counts a packet of too many scopes. */
static __always_inline void count_overflow(__u64 list)
{
	__u32 first = 0;

	if (count_of(list) < TOO_MANY)
		return;
	__u64 *overflow = bpf_map_lookup_elem(&limit_overflow, &first);

	if (overflow)
		*overflow += 1;
}

static __always_inline __u32 scope_of(__u64 list, int place)
{
	return list >> (COUNT_BITS + place * LIMIT_SCOPE_BITS) & SCOPE_MASK;
}

/*
 * Reports whether all packets of a socket have the same remote. A raw socket may send TCP, and a
 * listener has many remotes.
 */
static __always_inline __u32 is_stream(struct bpf_sock *sk, const struct packet *p)
{
	sk = bpf_sk_fullsock(sk);
	return sk && p->protocol == IPPROTO_TCP && sk->type != SOCK_RAW && sk->state != BPF_TCP_LISTEN;
}

/*
 * Looks up the scopes of a socket with its first packet: all scopes of a stream, or those of
 * another socket itself.
 */
static __always_inline void lookup_scopes(struct __sk_buff *skb, const struct packet *p, __u32 stream,
				    const struct limit_settings *settings, struct socket_state *known)
{
	known->scopes.count = 0;
	match_own(skb, settings->kinds, &known->scopes);
	if (stream)
		lookup_path_scopes(skb, p, settings, &known->scopes);
	known->list[LIMIT_EGRESS] = known->list[LIMIT_INGRESS] = pack(&known->scopes);
	known->device[LIMIT_EGRESS] = known->device[LIMIT_INGRESS] = skb->ifindex;
	known->stream = stream;
	known->pace_version = 0;
	known->number++;
	known->mark = match_mark(skb);
	/* If marks have scopes, every packet must pass is_current(). */
	known->generation = settings->kinds & MATCH_MARKS ? ~settings->generation : settings->generation;
}

/*
 * Reports whether a stream uses another device than at its lookup: its route has moved, it was
 * bound to a device, or its directions use different devices.
 */
static __always_inline __u32 has_moved(struct __sk_buff *skb, const struct limit_settings *settings, const struct socket_state *known,
				       __u32 direction)
{
	return settings->kinds & MATCH_INTERFACES && known->stream && known->device[direction & 1] != skb->ifindex;
}

/*
 * Looks up the scopes of one direction of a stream that has moved. A global function, verified
 * once.
 */
__attribute__((noinline)) int lookup_moved(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
					   struct socket_state *known, __u32 direction)
{
	struct match_scopes found = {};

	if (!p || !settings || !known)
		return 0;
	match_own(skb, settings->kinds, &found);
	lookup_path_scopes(skb, p, settings, &found);
	known->list[direction & 1] = pack(&found);
	known->device[direction & 1] = skb->ifindex;
	known->pace_version = 0;
	if (direction == LIMIT_EGRESS) /* pacing follows the sent packets */
		known->scopes = found;
	return 0;
}

/*
 * Reports whether the scopes of a socket are current: with mark scopes, whether its mark is
 * unchanged.
 */
static __always_inline int is_current(struct __sk_buff *skb, const struct limit_settings *settings, const struct socket_state *known)
{
	return settings->kinds & MATCH_MARKS && known->generation == ~settings->generation && known->mark == match_mark(skb);
}

#endif
