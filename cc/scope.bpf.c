//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives a congestion control that needs ECN to the TCP connections of a cgroup.
 *
 *     SYN or SYN-ACK            ask for ECN, since the control is not there yet to do so
 *     handshake complete        set the control, if the peer takes part and the application has not chosen one
 *
 * Setting it from here needs neither the application's cooperation nor its permission, also in other network namespaces.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cc.h"
#include "kernel.h"

char scope_license[] SEC("license") = "Dual BSD/GPL";

#define IPPROTO_TCP 6
#define TCP_CONGESTION 13

/* The congestion control's name, filled up with zeros. */
const volatile char scope_control[16] = {};

/* One entry: what was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cc_scope_counts);
} scope_counts SEC(".maps");

static __always_inline void established(struct bpf_sock_ops *op, struct cc_scope_counts *counts)
{
	struct bpf_sock *sk = op->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	char name[16];

	if (!tp)
		return;
	if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt)) {
		counts->chosen++;
		return;
	}
	if (!(tp->ecn_flags & ECN_NEGOTIATED)) {
		counts->no_ecn++;
		return;
	}
	for (int i = 0; i < (int)sizeof(name); i++)
		name[i] = scope_control[i];
	if (bpf_setsockopt(op, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name)))
		counts->failed++;
	else
		counts->assigned++;
}

SEC("sockops")
int scope_sockops(struct bpf_sock_ops *op)
{
	__u32 zero = 0;
	struct cc_scope_counts *counts = bpf_map_lookup_elem(&scope_counts, &zero);

	if (!counts)
		return 1;
	switch (op->op) {
	case BPF_SOCK_OPS_NEEDS_ECN:
		op->reply = 1;
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(op, counts);
		break;
	}
	return 1;
}
