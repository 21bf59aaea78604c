/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which scopes a packet is charged to. */
#ifndef WEIR_LIMIT_SCOPES_H
#define WEIR_LIMIT_SCOPES_H

#include "../../../bpf/match_packet.h"
#include "maps.h"
#include "packet.h"
#include "fair_share.h"

#define SOCK_RAW 3
#define COUNT_BITS 3
#define TOO_MANY (LIMIT_SCOPES_PER_SOCKET + 1) /* the count where there are more scopes */
#define SCOPE_MASK ((1 << LIMIT_SCOPE_BITS) - 1)

static __always_inline __u32 depth_of(__u32 scope)
{
	struct limit_node *node = bpf_map_lookup_elem(&limit_tree, &scope);

	return node ? node->depth : 0;
}

/* Adds the scopes above those found, each once, and puts children before their parents. */
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
 * Adds the scopes of where the packet goes or comes from, then the parents of all. Global, to be
 * verified once.
 */
__attribute__((noinline)) int find_rest(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
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

/* The scopes of a packet in one word, and what is in it. */
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

/* Counts a packet of more scopes than it can be charged to. */
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
 * Whether a socket's packets, one of which this is, all go to one remote. A raw socket may send
 * TCP, a listener answers whoever asks.
 */
static __always_inline __u32 is_stream(struct bpf_sock *sk, const struct packet *p)
{
	sk = bpf_sk_fullsock(sk);
	return sk && p->protocol == IPPROTO_TCP && sk->type != SOCK_RAW && sk->state != BPF_TCP_LISTEN;
}

/*
 * Looks up the scopes of a socket with its first packet: of a stream, all of them; of a datagram
 * socket, connected or not, its own.
 */
static __always_inline void look_up(struct __sk_buff *skb, const struct packet *p, __u32 stream,
				    const struct limit_settings *settings, struct socket_state *known)
{
	known->scopes.count = 0;
	match_own(skb, settings->kinds, &known->scopes);
	if (stream)
		find_rest(skb, p, settings, &known->scopes);
	known->list = pack(&known->scopes);
	known->stream = stream;
	known->pace_version = 0;
	known->number++;
	known->mark = match_mark(skb);
	/* Where marks have scopes, no packet takes the fast path past is_current(). */
	known->generation = settings->kinds & MATCH_MARKS ? ~settings->generation : settings->generation;
}

/*
 * Whether the scopes of a socket that is not of this generation are still right: where marks have
 * scopes, if it has the same.
 */
static __always_inline int is_current(struct __sk_buff *skb, const struct limit_settings *settings, const struct socket_state *known)
{
	return settings->kinds & MATCH_MARKS && known->generation == ~settings->generation && known->mark == match_mark(skb);
}

#endif
