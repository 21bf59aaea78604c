/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps by which a data plane finds the scopes of a packet or socket. core/match fills them and
 * sets scope_netns.
 *
 *   kind        map                a packet (cgroup_skb)                  a TCP socket (sockops)
 *   cgroup      scope_cgroups      of its socket, and all above           the same
 *   user        scope_users        of its socket, as the host numbers it  the same
 *   mark        scope_marks        SO_MARK of its socket                  SO_MARK
 *   netns       scope_netspaces    of its socket                          of the socket
 *   prefix      scope_prefixes     the other end's address                the other end's address
 *   interface   scope_interfaces   its device of egress or ingress        the device of its current route
 *
 * The socket of a packet is the sender's at egress and the receiver's at ingress. Marks, prefixes,
 * interfaces and the host (the root cgroup) match only in network namespaces owned by the host's
 * user namespace: in other ones an unprivileged user controls them. The loader sets the real sizes
 * of maps declared with 1 entry.
 *
 * match_packet.h and match_socket.h do the lookups. Include one of them after linux/bpf.h,
 * bpf/bpf_helpers.h and bpf/bpf_endian.h.
 */
#ifndef WEIR_MATCH_H
#define WEIR_MATCH_H

#include <bpf/bpf_endian.h>

enum match_bounds {
	MATCH_SCOPES = 4,         /* scopes of one packet */
	MATCH_CGROUP_LEVELS = 32, /* cgroup levels that match, including the root */
};

/* Kinds with scopes. The programs skip the lookups of other kinds. */
enum match_kind {
	MATCH_CGROUPS = 1,
	MATCH_USERS = 2,
	MATCH_INTERFACES = 4,
	MATCH_PREFIXES = 8,
	MATCH_NETNS = 16,
	MATCH_MARKS = 32,
};

/* Key of the longest-prefix match. */
struct match_prefix {
	__u32 length;     /* bits */
	__u32 address[4]; /* network byte order; IPv4 as IPv4-mapped IPv6 */
};

/* The same for user ids. */
struct match_users {
	__u32 length; /* bits */
	__u32 user;   /* network byte order */
};

/*
 * The scopes found, innermost first. count may exceed MATCH_SCOPES; further scopes are not stored.
 */
struct match_scopes {
	__u32 count;
	__u32 scope[MATCH_SCOPES];
};

/*
 * Cookie of the network namespace of the interfaces in scope_interfaces; 0 if the program type
 * cannot read the cookie of a packet.
 */
const volatile __u64 scope_netns = 0;

/* 1 if the programs may call bpf_probe_read_kernel(). */
const volatile __u32 scope_reads = 0;

/* Cgroup id to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} scope_cgroups SEC(".maps");

/* User id to scope, longest match: a user's subordinate ids are some ranges. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct match_users);
	__type(value, __u32);
} scope_users SEC(".maps");

/* Interface index to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} scope_interfaces SEC(".maps");

/* Remote prefix to scope, longest match. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct match_prefix);
	__type(value, __u32);
} scope_prefixes SEC(".maps");

/* Cookie of a network namespace to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} scope_netspaces SEC(".maps");

/* Socket mark to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} scope_marks SEC(".maps");

static __always_inline void match_add(struct match_scopes *found, const __u32 *scope)
{
	if (!scope)
		return;
	if (found->count < MATCH_SCOPES)
		found->scope[found->count & (MATCH_SCOPES - 1)] = *scope;
	found->count++;
}

static __always_inline void match_add_user(struct match_scopes *found, __u32 user)
{
	struct match_users key = {.length = 32, .user = bpf_htonl(user)};

	match_add(found, bpf_map_lookup_elem(&scope_users, &key));
}

#endif /* WEIR_MATCH_H */
