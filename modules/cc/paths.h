/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The paths of connections (shared_window.h), by their addresses. */
#ifndef WEIR_CC_PATHS_H
#define WEIR_CC_PATHS_H

#include "shared_window.h"
#include "kernel.h"

#define LEDBAT_PATHS 4096 /* the least recently used are forgotten */

/* Both addresses, in a network namespace. */
struct ledbat_path_key {
	__u64 netns; /* cookie; 0 without namespaces */
	__u32 local[4];
	__u32 peer[4]; /* network byte order; IPv4 in the last word */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LEDBAT_PATHS);
	__type(key, struct ledbat_path_key);
	__type(value, struct ledbat_path);
} ledbat_paths SEC(".maps");

static __always_inline void path_key_of(const struct sock *sk, struct ledbat_path_key *key)
{
	const struct sock_common *c = &sk->__sk_common;

	__builtin_memset(key, 0, sizeof(*key));
	if (bpf_core_field_exists(c->skc_net.net))
		key->netns = c->skc_net.net->net_cookie;
	if (c->skc_family != FAMILY_IPV6) {
		key->local[3] = c->skc_rcv_saddr;
		key->peer[3] = c->skc_daddr;
		return;
	}
#pragma unroll
	for (int i = 0; i < 4; i++) {
		key->local[i] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		key->peer[i] = c->skc_v6_daddr.in6_u.u6_addr32[i];
	}
}

/* Returns the path of a connection, made if needed; 0 if that fails. */
static __always_inline struct ledbat_path *path_of(const struct sock *sk, __u32 now)
{
	struct ledbat_path_key key;
	struct ledbat_path *path, fresh = {};

	path_key_of(sk, &key);
	path = bpf_map_lookup_elem(&ledbat_paths, &key);
	if (path && !has_passed(now, path->delays.minute, LEDBAT_MINUTES * LEDBAT_MINUTE))
		return path;
	init_delays(&fresh.delays, now);
	bpf_map_update_elem(&ledbat_paths, &key, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&ledbat_paths, &key);
}

#endif /* WEIR_CC_PATHS_H */
