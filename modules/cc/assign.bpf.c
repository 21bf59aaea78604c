//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives congestion controls to the TCP connections of scopes.
 *
 *     SYN or SYN-ACK            ask for ECN, if the scope's control needs it: the control is not there yet to do so
 *     handshake complete        set the control, unless the application has chosen one, or the
 *                               peer refused ECN that it needs;
 *                               begin to steer the window, if the scope receives by
 *                               rLEDBAT (receive.h)
 *     segment to be written     steer the window that it advertises
 *
 * Which of a socket's scopes decides is in bpf/match_decide.h.
 *
 * Setting a control from here needs neither the application's cooperation nor its permission, also
 * in other network namespaces.
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

#include "receive.h"

static __always_inline struct cc_scope *scope_of(const struct match_scopes *found, __u32 at)
{
	return bpf_map_lookup_elem(&assign_scopes, &found->scope[at & (MATCH_SCOPES - 1)]);
}

/*
 * Gives a complete connection the control of a scope. In shadow nobody has asked for ECN, so its
 * absence says nothing.
 */
static __always_inline void set_control(struct bpf_sock_ops *ops, struct tcp_sock *tp, const struct cc_scope *scope, struct cc_scope_counts *counts,
					int shadow)
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

/* Gives a complete connection what a scope has. */
static __always_inline void assign(struct bpf_sock_ops *ops, const struct match_scopes *found, __u32 at)
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
		receive_begin(ops, tp, index, counts, order->flags & MATCH_ORDER_SHADOW);
}

static __always_inline void established(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = match_decides(found, 1), real;

	if (at >= MATCH_NONE)
		return;
	assign(ops, found, at);
	real = match_decides(found, 0);
	if (real < MATCH_NONE && real != at)
		assign(ops, found, real);
}

static __always_inline int has_chosen(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	return tp && BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

/* The program is one of several: what it does not ask for is left as others have left it. */
static __always_inline void ask_window(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = match_decides(found, 0);
	struct cc_scope *scope = at < MATCH_NONE ? scope_of(found, at) : 0;
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	if (tp && scope && scope->receive.target && !stays_here(tp))
		ops->reply = RLEDBAT_INITIAL;
}

static __always_inline void ask(struct bpf_sock_ops *ops, const struct match_scopes *found)
{
	__u32 at = match_decides(found, 0);
	struct cc_scope *scope = at < MATCH_NONE ? scope_of(found, at) : 0;

	if (scope && scope->flags & CC_SCOPE_ECN && !has_chosen(ops))
		ops->reply = 1;
}

SEC("sockops")
int assign_sockops(struct bpf_sock_ops *ops)
{
	__u32 zero = 0, op = ops->op;
	struct cc_settings *settings = bpf_map_lookup_elem(&assign_settings, &zero);
	struct match_scopes found = {};

	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		receive_written(ops);
		return 1;
	}
	if (!settings || !settings->kinds)
		return 1;
	switch (op) {
	case BPF_SOCK_OPS_RWND_INIT:
		if (!ops->sk)
			break;
		match_socket(ops, settings->kinds, &found);
		ask_window(ops, &found);
		break;
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
