//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sets the congestion controls of the TCP connections of scopes.
 *
 *     SYN or SYN-ACK            request ECN if the scope's control needs it, since the control is
 *                               not set yet
 *     handshake complete        set the control, unless the application set one itself, or the
 *                               control needs ECN and the peer does not support it;
 *                               start rLEDBAT if the scope has it (receive.h)
 *     segment to be written     update its receive window
 *
 * bpf/match_decide.h selects one of a socket's scopes. Applications take no part, in other network
 * namespaces too.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/match_socket.h"
#include "../../bpf/match_decide.h"
#include "cc.h"
#include "kernel.h"
#include "request.h"

char assign_license[] SEC("license") = "Dual BSD/GPL";

#define TCP_CONGESTION 13

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_settings);
} assign_settings SEC(".maps");

/* Scope to control; sized at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_scope);
} assign_scopes SEC(".maps");

/* Scope to counters. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_scope_counts);
} assign_counts SEC(".maps");

#include "receive.h"

static __always_inline struct cc_scope *scope_of(const struct match_scopes *found, __u32 at)
{
	return bpf_map_lookup_elem(&assign_scopes, &found->scope[at & (MATCH_SCOPES - 1)]);
}

/*
 * Sets the control of a scope on an established connection. In shadow ECN was not requested, so its
 * absence has no meaning.
 */
static __always_inline void set_control(struct bpf_sock_ops *ops, struct tcp_sock *tp,
				const struct cc_scope *scope, struct cc_scope_counts *counts, int shadow)
{
	char name[CC_NAME];

	if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt)) {
		counts->chosen++;
		return;
	}
	if (shadow) {
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

/* Applies a scope to an established connection. */
static __always_inline void apply_scope(struct bpf_sock_ops *ops, const struct match_scopes *found, __u32 at)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	__u32 index = found->scope[at & (MATCH_SCOPES - 1)];
	struct cc_scope *scope = scope_of(found, at);
	struct match_order *order = match_order_of(found, at);
	struct cc_scope_counts *counts = bpf_map_lookup_elem(&assign_counts, &index);

	if (!tp || !scope || !order || !counts)
		return;
	if (scope->control[0])
		set_control(ops, tp, scope, counts, order->flags & MATCH_ORDER_SHADOW);
	if (scope->receive.target)
		begin_receive(ops, tp, index, counts, order->flags & MATCH_ORDER_SHADOW);
}

static __always_inline void assign_connection(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = match_decides(found, 1), real;

	if (at >= MATCH_NONE)
		return;
	apply_scope(ops, found, at);
	real = match_decides(found, 0);
	if (real < MATCH_NONE && real != at)
		apply_scope(ops, found, real);
}

static __always_inline int application_chose_control(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	return tp && BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

/* Limits the initial window. Without rLEDBAT, ops->reply keeps the value of other programs. */
static __always_inline void request_initial_window(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = match_decides(found, 0);
	struct cc_scope *scope = at < MATCH_NONE ? scope_of(found, at) : 0;
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	if (!tp || !scope || !scope->receive.target || is_loopback(tp))
		return;
	ops->reply = RLEDBAT_INITIAL;
	request_small_unit(ops, tp);
}

static __always_inline void request_ecn(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = match_decides(found, 0);
	struct cc_scope *scope = at < MATCH_NONE ? scope_of(found, at) : 0;

	if (scope && scope->flags & CC_SCOPE_ECN && !application_chose_control(ops))
		ops->reply = 1;
}

SEC("sockops")
int assign_sockops(struct bpf_sock_ops *ops)
{
	__u32 zero = 0, op = ops->op;
	struct cc_settings *settings = bpf_map_lookup_elem(&assign_settings, &zero);
	struct match_scopes found = {};

	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		update_window(ops);
		return 1;
	}
	if (!settings || !settings->kinds)
		return 1;
	switch (op) {
	case BPF_SOCK_OPS_RWND_INIT:
		if (!ops->sk)
			break;
		match_socket(ops, settings->kinds, &found);
		request_initial_window(ops, &found);
		break;
	case BPF_SOCK_OPS_NEEDS_ECN:
		if (ops->sk)
			match_socket(ops, settings->kinds, &found);
		else
			match_request(ops, settings->kinds, &found);
		request_ecn(ops, &found);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		match_socket(ops, settings->kinds, &found);
		assign_connection(ops, &found);
		break;
	}
	return 1;
}
