/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scopes of a packet, for cgroup_skb programs. Global functions are verified once, not with
 * every path that leads to them.
 */
#ifndef WEIR_MATCH_PACKET_H
#define WEIR_MATCH_PACKET_H

#include "match.h"

/* The level of the cgroup of a packet's socket, by bisection: beyond it there are no ids. */
__attribute__((noinline)) int match_level(struct __sk_buff *skb)
{
	__u32 level = 0;

	for (__u32 step = MATCH_CGROUP_LEVELS / 2; step; step /= 2)
		if (bpf_skb_ancestor_cgroup_id(skb, level + step))
			level += step;
	return level;
}

/* SO_MARK of a packet's socket; 0 for none. */
static __always_inline __u32 match_mark(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : 0;
	return sk ? sk->mark : 0;
}

/* Adds the scopes of a packet's socket, which change with SO_MARK alone. */
__attribute__((noinline)) int match_own(struct __sk_buff *skb, __u32 kinds, struct match_scopes *found)
{
	if (!found)
		return 0;
	if (kinds & MATCH_CGROUPS) {
		int level = match_level(skb);

		for (int i = 0; i < MATCH_CGROUP_LEVELS && level >= 0; i++, level--) {
			__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

			match_add(found, bpf_map_lookup_elem(&scope_cgroups, &id));
		}
	}
	if (kinds & MATCH_USERS) {
		__u32 user = bpf_get_socket_uid(skb);

		match_add(found, bpf_map_lookup_elem(&scope_users, &user));
	}
	if (kinds & MATCH_MARKS) {
		__u32 mark = match_mark(skb);

		match_add(found, bpf_map_lookup_elem(&scope_marks, &mark));
	}
	if (scope_netns && kinds & MATCH_NETNS) {
		__u64 cookie = bpf_get_netns_cookie(skb);

		match_add(found, bpf_map_lookup_elem(&scope_netspaces, &cookie));
	}
	return 0;
}

/* Adds the scopes of where a packet goes or comes from. */
static __always_inline void match_path(struct __sk_buff *skb, const struct match_prefix *remote, __u32 kinds, struct match_scopes *found)
{
	if (kinds & MATCH_PREFIXES) {
		struct match_prefix key = *remote;

		match_add(found, bpf_map_lookup_elem(&scope_prefixes, &key));
	}
	/* Indices repeat in other network namespaces. */
	if (kinds & MATCH_INTERFACES && !(scope_netns && bpf_get_netns_cookie(skb) != scope_netns)) {
		__u32 index = skb->ifindex;

		match_add(found, bpf_map_lookup_elem(&scope_interfaces, &index));
	}
}

#endif /* WEIR_MATCH_PACKET_H */
