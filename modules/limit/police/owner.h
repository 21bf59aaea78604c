/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owners of accepted sockets. An accepted socket inherits the cgroup of its listener, which a
 * service manager may have opened outside of the unit (socket activation). It is charged to the
 * cgroup of the process that accepts it instead (accept.bpf.c).
 */
#ifndef WEIR_LIMIT_OWNER_H
#define WEIR_LIMIT_OWNER_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/match.h"

/* The cgroup of the accepting process: ids of its levels, from the root; 0 below the cgroup. */
struct socket_owner {
	__u64 group[MATCH_CGROUP_LEVELS];
};

/* Owners of accepted sockets, if a cgroup of the accepting process has a scope. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_owner);
} limit_owners SEC(".maps");

/* Adds the cgroup scopes of an accepted socket, innermost first; returns 0 without an owner. */
static __always_inline int match_accepted(struct __sk_buff *skb, struct match_scopes *found)
{
	struct bpf_sock *sk = skb->sk;
	struct socket_owner *owner;

	sk = sk ? bpf_sk_fullsock(sk) : 0;
	owner = sk ? bpf_sk_storage_get(&limit_owners, sk, 0, 0) : 0;
	if (!owner)
		return 0;
	for (int i = MATCH_CGROUP_LEVELS - 1; i >= 0; i--) {
		__u64 id = owner->group[i];

		if (id)
			match_add(found, bpf_map_lookup_elem(&scope_cgroups, &id));
	}
	return 1;
}

#define MATCH_ACCEPTED match_accepted

#endif
