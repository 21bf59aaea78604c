/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a data plane can tell traffic by, and the scopes that apply to it. internal/match fills the
 * maps and sets scope_netns.
 *
 *   kind        map                a packet (cgroup_skb)                  a TCP socket (sockops)
 *   cgroup      scope_cgroups      of its socket, and all above           the same
 *   user        scope_users        of its socket, as the host numbers it  the same
 *   mark        scope_marks        SO_MARK of its socket                  SO_MARK
 *   netns       scope_netspaces    of its socket                          of the socket
 *   prefix      scope_prefixes     the other end's address                the other end's address
 *   interface   scope_interfaces   that it leaves or has come by          that its route leaves by, now
 *
 * A packet's socket is its sender's at egress and its receiver's at ingress. Marks, prefixes,
 * interfaces and the host, which is the cgroup at the root, are of network namespaces that belong
 * to the host's user namespace: in others whoever has made one chooses them. Sizes of 1 are set
 * when the maps are loaded.
 *
 * The look-ups are in match_packet.h and match_socket.h. Include one after linux/bpf.h,
 * bpf/bpf_helpers.h and bpf/bpf_endian.h.
 */
#ifndef WEIR_MATCH_H
#define WEIR_MATCH_H

enum match_bounds {
	MATCH_SCOPES = 4,         /* that a packet can have */
	MATCH_CGROUP_LEVELS = 32, /* of cgroups that are told, the root's among them */
};

/* Kinds that have scopes, so that the others cost nothing. */
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

/* The scopes that were found, innermost first. There may be more of them than their numbers. */
struct match_scopes {
	__u32 count;
	__u32 scope[MATCH_SCOPES];
};

/*
 * Cookie of the network namespace that interfaces are of; 0 where these programs may not ask for a
 * packet's.
 */
const volatile __u64 scope_netns = 0;

/* Whether these programs may read the kernel's memory, by bpf_probe_read_kernel(). */
const volatile __u32 scope_reads = 0;

/* Cgroup id to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} scope_cgroups SEC(".maps");

/* User id to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
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

#endif /* WEIR_MATCH_H */
