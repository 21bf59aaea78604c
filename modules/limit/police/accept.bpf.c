//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records the cgroup of the process that accepts a connection, or asks for the peer of an inherited
 * one: the sockets of a unit with socket activation belong to the cgroup of the service manager.
 * accept() with an address and getpeername() run the hook. The maps are those of police.bpf.c.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "owner.h"

char accept_license[] SEC("license") = "Dual BSD/GPL";

static __always_inline int record_owner(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct socket_state *known;
	struct socket_owner *owner;
	__u32 scoped = 0;

	if (!sk)
		return 1;
	for (int i = 1; i < MATCH_CGROUP_LEVELS && !scoped; i++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(i);

		if (!id)
			break;
		scoped = bpf_map_lookup_elem(&scope_cgroups, &id) != 0;
	}
	if (!scoped)
		return 1;
	owner = bpf_sk_storage_get(&limit_owners, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!owner)
		return 1;
	for (int i = 0; i < MATCH_CGROUP_LEVELS; i++)
		owner->group[i] = bpf_get_current_ancestor_cgroup_id(i);
	known = bpf_sk_storage_get(&limit_sockets, sk, 0, 0);
	if (known) /* data may have come before the accept */
		known->generation = 0;
	return 1;
}

SEC("cgroup/getpeername4")
int limit_accept4(struct bpf_sock_addr *ctx)
{
	return record_owner(ctx);
}

SEC("cgroup/getpeername6")
int limit_accept6(struct bpf_sock_addr *ctx)
{
	return record_owner(ctx);
}
