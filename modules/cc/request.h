/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the scopes of a received connection request. A request has no socket yet; the connection
 * will inherit cgroup, user and mark of the listener. No helper returns the listener; the kernel's
 * context contains it (Linux 6.2). The interface of the reply is unknown.
 */
#ifndef WEIR_CC_REQUEST_H
#define WEIR_CC_REQUEST_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sock_common___request {
	struct sock___match *skc_listener; /* in a union: valid for requests only */
};

struct sock___request {
	struct sock_common___request __sk_common;
};

struct bpf_sock_ops_kern {
	struct sock___request *sk;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

static __always_inline struct sock___match *listener_of(struct bpf_sock_ops *ops)
{
	struct bpf_sock_ops_kern *kernel;
	__u64 listener;

	if (!bpf_cast_to_kern_ctx || !bpf_rdonly_cast)
		return 0;
	kernel = bpf_cast_to_kern_ctx(ops);
	/* As a number: the verifier types the union by its first member. */
	listener = *(__u64 *)&kernel->sk->__sk_common.skc_listener;
	return listener ? bpf_rdonly_cast((void *)listener, bpf_core_type_id_kernel(struct sock)) : 0;
}

/* Adds the scopes of the future connection. Global, so that it is verified once. */
__attribute__((noinline)) int match_request(struct bpf_sock_ops *ops, __u32 kinds, struct match_scopes *found)
{
	struct sock___match *listener = listener_of(ops);

	if (listener && found)
		match_socket_own(ops, listener, kinds, found);
	return 0;
}

#endif
