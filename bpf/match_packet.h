/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scopes of a packet, for cgroup_skb programs. Global functions are verified once instead of
 * once per calling path.
 */
#ifndef WEIR_MATCH_PACKET_H
#define WEIR_MATCH_PACKET_H

#include <bpf/bpf_core_read.h>
#include <stdbool.h>

#include "match.h"

/*
 * Adds the cgroup scopes of an accepted socket and returns 1, or returns 0 if it belongs to the
 * cgroup of its listener. A data plane that traces accept() defines it before the include.
 */
#ifndef MATCH_ACCEPTED
#define MATCH_ACCEPTED(skb, found) 0
#endif

#define MATCH_TCP 6
#define MATCH_STREAM 1

/* Level of the packet's cgroup, by bisection: deeper levels have no id. */
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

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kuid___packet {
	__u32 val;
};

struct user_namespace___packet {
	int level;
};

struct net___packet {
	struct user_namespace___packet *user_ns;
};

typedef struct {
	struct net___packet *net;
} possible_net_t___packet;

struct sock_common___packet {
	possible_net_t___packet skc_net;
};

struct sock___packet {
	struct sock_common___packet __sk_common;
	struct kuid___packet sk_uid;
};

struct inet_connection_sock___packet {
	void *icsk_ulp_data;
};

struct tcp_sock___packet {
	bool is_mptcp;
};

struct mptcp_subflow_context___packet {
	struct sock___packet *conn;
};
#pragma clang attribute pop

/*
 * The socket that carries the user of a TCP socket. For an MPTCP subflow it is the connection's
 * socket: the kernel owns a further subflow until it is connected.
 */
static __always_inline struct sock___packet *match_owner(void *sk)
{
	struct inet_connection_sock___packet *connection = sk;
	struct mptcp_subflow_context___packet *subflow = 0;
	struct tcp_sock___packet *tcp = sk;
	struct sock___packet *owner = 0;
	bool is = false;

	if (!bpf_core_field_exists(tcp->is_mptcp) || !bpf_core_field_exists(subflow->conn))
		return sk;
	bpf_probe_read_kernel(&is, sizeof(is), &tcp->is_mptcp);
	if (!is)
		return sk;
	bpf_probe_read_kernel(&subflow, sizeof(subflow), &connection->icsk_ulp_data);
	if (subflow)
		bpf_probe_read_kernel(&owner, sizeof(owner), &subflow->conn);
	return owner ? owner : sk;
}

/*
 * Address of the kernel's struct sock, read from the stack as a number: cgroup programs may not
 * dereference it.
 */
static __always_inline struct sock___packet *match_address(struct bpf_sock *sk)
{
	struct bpf_sock *volatile here = sk;
	struct sock___packet *there = 0;

	bpf_probe_read_kernel(&there, sizeof(there), (void *)&here);
	return there;
}

/*
 * Reports whether the network namespace of the packet's socket belongs to another user namespace
 * than the host's. Its creator controls marks, addresses and device indices there. Always 0 if
 * programs may not read kernel memory. Global: verified once.
 */
__attribute__((noinline)) int match_foreign(struct __sk_buff *skb)
{
	struct user_namespace___packet *owner = 0;
	struct net___packet *net = 0;
	struct sock___packet *there = 0;
	int level = 0;

	if (!scope_reads || !skb->sk || !bpf_core_field_exists(there->__sk_common.skc_net.net))
		return 0;
	there = match_address(skb->sk);
	bpf_probe_read_kernel(&net, sizeof(net), &there->__sk_common.skc_net.net);
	bpf_probe_read_kernel(&owner, sizeof(owner), &net->user_ns);
	bpf_probe_read_kernel(&level, sizeof(level), &owner->level);
	return level;
}

/* Adds a scope unless the packet is in a foreign network namespace. */
static __always_inline void match_add_here(struct __sk_buff *skb, struct match_scopes *found, const __u32 *scope)
{
	if (scope && !match_foreign(skb))
		match_add(found, scope);
}

/*
 * User of the packet's socket in the numbering of the host; ~0 for none. If programs may not read
 * kernel memory, bpf_get_socket_uid() returns it in the numbering of the network namespace, which
 * an unprivileged user controls.
 */
static __always_inline __u32 match_user(struct __sk_buff *skb)
{
	__u32 user = ~0U;
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : 0;
	if (!sk)
		return user;
	if (!scope_reads)
		return bpf_get_socket_uid(skb);
	struct sock___packet *there = match_address(sk);

	if (sk->protocol == MATCH_TCP && sk->type == MATCH_STREAM)
		there = match_owner(there);
	bpf_probe_read_kernel(&user, sizeof(user), &there->sk_uid.val);
	return user;
}

/* Adds the scopes of the packet's socket. They change only with SO_MARK. */
__attribute__((noinline)) int match_own(struct __sk_buff *skb, __u32 kinds, struct match_scopes *found)
{
	if (!found)
		return 0;
	if (kinds & MATCH_CGROUPS && !MATCH_ACCEPTED(skb, found)) {
		int level = match_level(skb);

		for (int i = 0; i < MATCH_CGROUP_LEVELS && level >= 0; i++, level--) {
			__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);
			__u32 *scope = bpf_map_lookup_elem(&scope_cgroups, &id);

			if (level)
				match_add(found, scope);
			else /* the host */
				match_add_here(skb, found, scope);
		}
	}
	if (kinds & MATCH_USERS)
		match_add_user(found, match_user(skb));
	if (kinds & MATCH_MARKS) {
		__u32 mark = match_mark(skb);

		match_add_here(skb, found, bpf_map_lookup_elem(&scope_marks, &mark));
	}
	if (scope_netns && kinds & MATCH_NETNS) {
		__u64 cookie = bpf_get_netns_cookie(skb);

		match_add(found, bpf_map_lookup_elem(&scope_netspaces, &cookie));
	}
	return 0;
}

/* Adds the scopes of the packet's remote prefix and device. */
static __always_inline void match_path(struct __sk_buff *skb, const struct match_prefix *remote, __u32 kinds, struct match_scopes *found)
{
	if (kinds & MATCH_PREFIXES) {
		struct match_prefix key = *remote;

		match_add_here(skb, found, bpf_map_lookup_elem(&scope_prefixes, &key));
	}
	/* Indices repeat in other network namespaces. */
	if (kinds & MATCH_INTERFACES && !(scope_netns && bpf_get_netns_cookie(skb) != scope_netns)) {
		__u32 index = skb->ifindex;

		match_add_here(skb, found, bpf_map_lookup_elem(&scope_interfaces, &index));
	}
}

#endif /* WEIR_MATCH_PACKET_H */
