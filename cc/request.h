/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scopes of a connection request that has come in. It is no socket yet, and no helper leads from it to the listener whose
 * cgroup, user and mark it will have; the kernel's context does (Linux 6.2). By which interface the answer will leave is not known.
 */
#ifndef WEIR_CC_REQUEST_H
#define WEIR_CC_REQUEST_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sock_common___request {
	struct sock___request *skc_listener; /* in a union: only a request has it */
};

struct sock___request {
	struct sock_common___request __sk_common;
	__u32 sk_mark;
};

struct bpf_sock_ops_kern {
	struct sock___request *sk;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

static __always_inline struct sock___request *listener_of(struct bpf_sock_ops *ops)
{
	struct bpf_sock_ops_kern *kernel;
	__u64 listener;

	if (!bpf_cast_to_kern_ctx || !bpf_rdonly_cast)
		return 0;
	kernel = bpf_cast_to_kern_ctx(ops);
	/* As a number, because to the verifier the union is its first member. */
	listener = *(__u64 *)&kernel->sk->__sk_common.skc_listener;
	return listener ? bpf_rdonly_cast((void *)listener, bpf_core_type_id_kernel(struct sock)) : 0;
}

/* Adds the scopes that the connection will have, in the order of match_socket(). */
__attribute__((noinline)) int match_request(struct bpf_sock_ops *ops, __u32 kinds, struct match_scopes *found)
{
	struct sock___request *listener = listener_of(ops);
	struct sock___match *sk = (struct sock___match *)listener;

	if (!listener || !found)
		return 0;
	if (kinds & MATCH_CGROUPS)
		match_socket_cgroups(sk, found);
	if (kinds & MATCH_USERS) {
		__u32 user = sk->sk_uid.val;

		match_add(found, bpf_map_lookup_elem(&scope_users, &user));
	}
	if (kinds & MATCH_MARKS) {
		__u32 mark = listener->sk_mark;

		match_add(found, bpf_map_lookup_elem(&scope_marks, &mark));
	}
	if (scope_netns && kinds & MATCH_NETNS) {
		__u64 cookie = bpf_get_netns_cookie(ops);

		match_add(found, bpf_map_lookup_elem(&scope_netspaces, &cookie));
	}
	if (kinds & MATCH_PREFIXES)
		match_socket_prefix(ops, found);
	return 0;
}

#endif
