/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scopes of a TCP socket, for sockops programs.
 *
 * They run in softirq too, where the current process is arbitrary, and no helper returns the
 * cgroup, user and interface of the socket. The programs read the kernel's structures instead. That
 * needs bpf_skc_to_tcp_sock in sockops (Linux 5.11), BTF, a GPL-compatible license, and the JIT:
 * the interpreter of a kernel without tracing reads zeros.
 */
#ifndef WEIR_MATCH_SOCKET_H
#define WEIR_MATCH_SOCKET_H

#include <bpf/bpf_core_read.h>
#include <stdbool.h>

#include "match.h"

#define MATCH_AF_INET 2
#define MATCH_MAPPED bpf_htonl(0xffff)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node___match {
	__u64 id;
};

struct cgroup_subsys_state___match {
	struct cgroup___match *cgroup;
	struct cgroup_subsys_state___match *parent;
};

struct cgroup___match {
	struct cgroup_subsys_state___match self;
	struct kernfs_node___match *kn;
};

struct sock_cgroup_data___match {
	struct cgroup___match *cgroup;
};

struct net_device___match {
	int ifindex;
};

struct dst_entry___match {
	struct net_device___match *dev;
};

struct kuid___match {
	__u32 val;
};

struct user_namespace___match {
	int level;
};

struct net___match {
	struct user_namespace___match *user_ns;
};

typedef struct {
	struct net___match *net;
} possible_net_t___match;

struct sock_common___match {
	possible_net_t___match skc_net;
};

struct sock___match {
	struct sock_common___match __sk_common;
	struct sock_cgroup_data___match sk_cgrp_data;
	struct dst_entry___match *sk_dst_cache;
	struct kuid___match sk_uid;
	__u32 sk_mark;
};

struct inet_connection_sock___match {
	void *icsk_ulp_data;
};

struct tcp_sock___match {
	bool is_mptcp;
};

struct mptcp_subflow_context___match {
	struct sock___match *conn;
};
#pragma clang attribute pop

/* match_foreign() for a socket. */
static __always_inline int match_socket_foreign(const struct sock___match *sk)
{
	if (!bpf_core_field_exists(sk->__sk_common.skc_net.net))
		return 0;
	return sk->__sk_common.skc_net.net->user_ns->level;
}

/*
 * User of a socket; for an MPTCP subflow, which the kernel owns at first, the user of its
 * connection.
 */
static __always_inline __u32 match_socket_user(const struct sock___match *sk)
{
	const struct inet_connection_sock___match *connection = (const void *)sk;
	const struct tcp_sock___match *tcp = (const void *)sk;
	struct mptcp_subflow_context___match *subflow = 0;
	struct sock___match *owner = 0;
	__u32 user = sk->sk_uid.val;
	bool is = false;

	if (!scope_reads || !bpf_core_field_exists(tcp->is_mptcp) || !bpf_core_field_exists(subflow->conn))
		return user;
	/* Some callers pass a socket of unknown type. */
	bpf_probe_read_kernel(&is, sizeof(is), &tcp->is_mptcp);
	if (!is)
		return user;
	bpf_probe_read_kernel(&subflow, sizeof(subflow), &connection->icsk_ulp_data);
	if (subflow)
		bpf_probe_read_kernel(&owner, sizeof(owner), &subflow->conn);
	if (owner)
		bpf_probe_read_kernel(&user, sizeof(user), &owner->sk_uid.val);
	return user;
}

/*
 * Adds the scopes of the socket's cgroup and its ancestors, for as many levels as the packet lookup
 * compares.
 */
static __always_inline void match_socket_cgroups(const struct sock___match *sk, int foreign, struct match_scopes *found)
{
	struct cgroup___match *group = sk->sk_cgrp_data.cgroup;

	for (int i = 0; i < 2 * MATCH_CGROUP_LEVELS && group; i++) {
		__u64 id = group->kn->id;
		struct cgroup_subsys_state___match *above = group->self.parent;

		if (above || !foreign) /* else the host */
			match_add(found, bpf_map_lookup_elem(&scope_cgroups, &id));
		group = above ? above->cgroup : 0;
	}
}

/*
 * volatile keeps the compiler from merging two field accesses into one at an offset that the
 * verifier rejects.
 */
static __always_inline void match_socket_prefix(const volatile struct bpf_sock_ops *ops, struct match_scopes *found)
{
	struct match_prefix key = {.length = 128};
	__u32 family = ops->family, ip4 = ops->remote_ip4;

	for (int i = 0; i < 4; i++)
		key.address[i] = ops->remote_ip6[i];
	if (family == MATCH_AF_INET) {
		key.address[0] = key.address[1] = 0;
		key.address[2] = MATCH_MAPPED;
		key.address[3] = ip4;
	}
	match_add(found, bpf_map_lookup_elem(&scope_prefixes, &key));
}

/*
 * Adds the scopes of a socket and its peer that do not depend on the route, in the order of
 * match_own() and match_path().
 */
static __always_inline void match_socket_own(struct bpf_sock_ops *ops, const struct sock___match *sk, __u32 kinds, struct match_scopes *found)
{
	int foreign = match_socket_foreign(sk);

	if (kinds & MATCH_CGROUPS)
		match_socket_cgroups(sk, foreign, found);
	if (kinds & MATCH_USERS)
		match_add_user(found, match_socket_user(sk));
	if (kinds & MATCH_MARKS && !foreign) {
		__u32 mark = sk->sk_mark;

		match_add(found, bpf_map_lookup_elem(&scope_marks, &mark));
	}
	if (scope_netns && kinds & MATCH_NETNS) {
		__u64 cookie = bpf_get_netns_cookie(ops);

		match_add(found, bpf_map_lookup_elem(&scope_netspaces, &cookie));
	}
	if (kinds & MATCH_PREFIXES && !foreign)
		match_socket_prefix(ops, found);
}

/*
 * Adds the scopes of a socket. A connection in handshake has none if the kernel has no full socket
 * yet. Global: verified once.
 */
__attribute__((noinline)) int match_socket(struct bpf_sock_ops *ops, __u32 kinds, struct match_scopes *found)
{
	struct bpf_sock *sk = ops->sk;
	struct sock___match *full = sk ? (struct sock___match *)bpf_skc_to_tcp_sock(sk) : 0;

	if (!full || !found)
		return 0;
	match_socket_own(ops, full, kinds, found);
	if (kinds & MATCH_INTERFACES && !match_socket_foreign(full) && !(scope_netns && bpf_get_netns_cookie(ops) != scope_netns)) {
		__u32 index = full->sk_dst_cache->dev->ifindex;

		match_add(found, bpf_map_lookup_elem(&scope_interfaces, &index));
	}
	return 0;
}

#endif /* WEIR_MATCH_SOCKET_H */
