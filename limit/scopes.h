/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which scopes a packet is charged to. */
#ifndef WEIR_LIMIT_SCOPES_H
#define WEIR_LIMIT_SCOPES_H

#include "maps.h"
#include "packet.h"
#include "sharing.h"

#define ANCESTOR_LEVELS 12

static __always_inline void add_scope(struct limit_scopes *found, const __u32 *scope)
{
	if (!scope)
		return;
	if (found->count < LIMIT_SCOPES_PER_SOCKET)
		found->scope[found->count & (LIMIT_SCOPES_PER_SOCKET - 1)] = *scope;
	found->count++;
}

static __always_inline __u32 depth_of(__u32 scope)
{
	struct limit_node *node = bpf_map_lookup_elem(&limit_tree, &scope);

	return node ? node->depth : 0;
}

/* Adds the scopes above those found, each once, and puts children before their parents. */
static __always_inline void add_parents(struct limit_scopes *found)
{
	__u32 depth[LIMIT_SCOPES_PER_SOCKET] = {};

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET && i < found->count; i++) {
		__u32 parent = parent_of(found->scope[i]), twice = 0;

		depth[i] = depth_of(found->scope[i]);
		for (int j = 0; j < LIMIT_SCOPES_PER_SOCKET; j++)
			twice |= j < found->count && found->scope[j] + 1 == parent;
		if (parent && !twice) {
			parent--;
			add_scope(found, &parent);
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
 * The scopes of a packet: those of its cgroup and of the cgroups above, of its user, remote prefix and interface, and
 * the parents of all of these.
 * A global function is verified once, not with every path that leads to it.
 */
__attribute__((noinline)) int find_scopes(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
					  struct limit_scopes *found)
{
	if (!p || !settings || !found)
		return 0;
	found->count = 0;
	for (int level = ANCESTOR_LEVELS; level >= 0 && settings->cgroups; level--) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

		if (id)
			add_scope(found, bpf_map_lookup_elem(&limit_cgroups, &id));
	}
	if (settings->users) {
		__u32 user = bpf_get_socket_uid(skb);

		add_scope(found, bpf_map_lookup_elem(&limit_users, &user));
	}
	if (settings->prefixes) {
		struct limit_prefix key = p->remote;

		add_scope(found, bpf_map_lookup_elem(&limit_prefixes, &key));
	}
	if (settings->interfaces) {
		__u32 index = skb->ifindex;

		add_scope(found, bpf_map_lookup_elem(&limit_interfaces, &index));
	}
	if (settings->parents)
		add_parents(found);
	if (found->count > LIMIT_SCOPES_PER_SOCKET) {
		__u32 first = 0;
		__u64 *overflow = bpf_map_lookup_elem(&limit_overflow, &first);

		if (overflow)
			*overflow += 1;
		found->count = LIMIT_SCOPES_PER_SOCKET;
	}
	return 0;
}

/*
 * The socket's remembered scopes, looked up with its first packet; 0 where there is no full socket or where scopes may
 * differ from packet to packet: a datagram socket may send anywhere.
 */
static __always_inline struct socket_state *socket_of(struct __sk_buff *skb, const struct packet *p, struct bpf_sock *sk,
						      const struct limit_settings *settings)
{
	if (!sk || p->protocol != IPPROTO_TCP)
		return 0;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (known && known->generation != settings->generation) {
		find_scopes(skb, p, settings, &known->scopes);
		known->generation = settings->generation;
	}
	return known;
}

#endif
