/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets that were open before the programs were attached, or are open when they end. */
#ifndef WEIR_LIMIT_ITERATOR_H
#define WEIR_LIMIT_ITERATOR_H

#include "sockops.h"

/*
 * The iterator goes through one network namespace at a time. The declarations stand in for the
 * kernel's: the verifier knows the types of these pointers, and no field behind them is read.
 */
struct bpf_iter__tcp {
	void *meta;
	void *sk_common;
	__u64 uid;
};

#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

/* Asks for the callbacks of a socket, which pace it and set its receive window. */
SEC("iter/tcp")
int limit_adopt(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;

	if (!common)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(common);
	__u32 first = 0;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);
	int flags = 0;

	/* Kernels before 6.12 do not report the flags, nor take them. */
	if (!tcp || !settings || bpf_getsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return 0;
	flags |= callbacks(settings);
	bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	return 0;
}

/*
 * Gives a socket back the pacing rate that its application had set, and a congestion window without
 * a bound.
 */
SEC("iter/tcp")
int limit_free(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;

	if (!common)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(common);

	if (!tcp)
		return 0;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, tcp, 0, 0);

	if (known && known->pace) {
		__u32 current = 0, rate = known->own_rate;

		/* What the application has set since is its own. */
		if (!bpf_getsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)) && current == known->pace)
			bpf_setsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
		known->pace = 0;
	}
	if (known && known->cwnd) {
		__u32 cwnd = UNBOUND;

		bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &cwnd, sizeof(cwnd));
		known->cwnd = 0;
	}
	if (known && known->rwnd) {
		__u32 current = 0, own = known->own_rwnd;

		if (!bpf_getsockopt(tcp, SOL_TCP, TCP_WINDOW_CLAMP, &current, sizeof(current)) && current == known->rwnd)
			bpf_setsockopt(tcp, SOL_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own));
		known->rwnd = 0;
	}

	return 0;
}

#endif
