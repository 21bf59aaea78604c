//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives congestion controls to the TCP connections of scopes.
 *
 *     SYN or SYN-ACK            ask for ECN, if the scope's control needs it: the control is not there yet to do so
 *     handshake complete        set the control, unless the application has chosen one, or the peer refused ECN that it needs
 *
 * Of a socket's scopes the innermost decides: a child before its parents, what names more before
 * the whole host, and otherwise in the order of bpf/match.h. A scope in shadow counts what it would
 * decide, and leaves the decision to the next one.
 *
 * Setting a control from here needs neither the application's cooperation nor its permission, also
 * in other network namespaces.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../bpf/match_socket.h"
#include "cc.h"
#include "kernel.h"
#include "request.h"

char assign_license[] SEC("license") = "Dual BSD/GPL";

#define IPPROTO_TCP 6
#define TCP_CONGESTION 13
#define NONE MATCH_SCOPES

/* Used here, so that BTF has the type. */
const volatile enum cc_bounds assign_depth = CC_MAX_DEPTH;

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_settings);
} assign_settings SEC(".maps");

/* Scope to its control; its size is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_scope);
} assign_scopes SEC(".maps");

/* Scope to what was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_scope_counts);
} assign_counts SEC(".maps");

static __always_inline struct cc_scope *scope_of(const struct match_scopes *found, __u32 at)
{
	return bpf_map_lookup_elem(&assign_scopes, &found->scope[at & (MATCH_SCOPES - 1)]);
}

/*
 * Whether one scope decides before another one that was found before it. Global, to be verified
 * once.
 */
__attribute__((noinline)) int assign_before(__u32 one, __u32 other)
{
	struct cc_scope *scope = bpf_map_lookup_elem(&assign_scopes, &other);

	if (scope && scope->flags & CC_SCOPE_HOST)
		return 1;
	for (int i = 0; i < CC_MAX_DEPTH; i++) {
		scope = bpf_map_lookup_elem(&assign_scopes, &one);
		if (!scope || !scope->parent)
			return 0;
		one = scope->parent - 1;
		if (one == other)
			return 1;
	}
	return 0;
}

/*
 * Which of the scopes decides; NONE if none has a control. Scopes in shadow take part only if they
 * are to.
 */
static __always_inline __u32 decides(const struct match_scopes *found, int shadow)
{
	__u32 best = NONE;

	for (__u32 i = 0; i < MATCH_SCOPES && i < found->count; i++) {
		struct cc_scope *scope = scope_of(found, i);

		if (!scope || !scope->control[0] || (!shadow && scope->flags & CC_SCOPE_SHADOW))
			continue;
		if (best == NONE || assign_before(found->scope[i], found->scope[best & (MATCH_SCOPES - 1)]))
			best = i;
	}
	return best;
}

/*
 * Gives a complete connection the control of a scope. In shadow nobody has asked for ECN, so its
 * absence says nothing.
 */
static __always_inline void assign(struct bpf_sock_ops *ops, const struct match_scopes *found, __u32 at)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	struct cc_scope *scope = scope_of(found, at);
	struct cc_scope_counts *counts = bpf_map_lookup_elem(&assign_counts, &found->scope[at & (MATCH_SCOPES - 1)]);
	char name[CC_NAME];

	if (!tp || !scope || !counts)
		return;
	if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt)) {
		counts->chosen++;
		return;
	}
	if (scope->flags & CC_SCOPE_SHADOW) {
		counts->assigned++;
		return;
	}
	if (scope->flags & CC_SCOPE_ECN && !(tp->ecn_flags & ECN_NEGOTIATED)) {
		counts->no_ecn++;
		return;
	}
	__builtin_memcpy(name, scope->control, sizeof(name));
	if (bpf_setsockopt(ops, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name)))
		counts->failed++;
	else
		counts->assigned++;
}

static __always_inline void established(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = decides(found, 1);
	struct cc_scope *scope = at < NONE ? scope_of(found, at) : 0;

	if (!scope)
		return;
	assign(ops, found, at);
	if (!(scope->flags & CC_SCOPE_SHADOW))
		return;
	at = decides(found, 0);
	if (at < NONE)
		assign(ops, found, at);
}

static __always_inline int has_chosen(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	return tp && BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

/* The program is one of several: what it does not ask for is left as others have left it. */
static __always_inline void ask(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = decides(found, 0);
	struct cc_scope *scope = at < NONE ? scope_of(found, at) : 0;

	if (scope && scope->flags & CC_SCOPE_ECN && !has_chosen(ops))
		ops->reply = 1;
}

SEC("sockops")
int assign_sockops(struct bpf_sock_ops *ops)
{
	__u32 zero = 0, op = ops->op;
	struct cc_settings *settings = bpf_map_lookup_elem(&assign_settings, &zero);
	struct match_scopes found = {};

	if (!settings || !settings->kinds)
		return 1;
	switch (op) {
	case BPF_SOCK_OPS_NEEDS_ECN:
		if (ops->sk)
			match_socket(ops, settings->kinds, &found);
		else
			match_request(ops, settings->kinds, &found);
		ask(ops, &found);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		match_socket(ops, settings->kinds, &found);
		established(ops, &found);
		break;
	}
	return 1;
}
