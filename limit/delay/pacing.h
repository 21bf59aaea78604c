/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP senders of this host are paced at the fair rate of their line, so that their queue is empty.
 * A packet tells its socket which line that is; a socket whose packets are not charged any more,
 * since they leave by another device or the limit has ended, has its own pace again.
 */
#ifndef WEIR_DELAY_PACING_H
#define WEIR_DELAY_PACING_H

#include "../pace.h"
#include "lines.h"

#define RTT_MEAN_SHIFT 3 /* 2^-n; what a sample weighs in the mean round-trip time */
#define STALE_US 500000  /* beyond two round trips, after which a socket that is acknowledged must have been charged */

struct delay_socket {
	struct paced paced;
	__u32 line;       /* key of the line that was slowest for its last packet; 0 before */
	__u64 charged_ns; /* when that was, CLOCK_MONOTONIC */
};

/* Sockets of TCP that were charged. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct delay_socket);
} delay_sockets SEC(".maps");

/* What is kept of the TCP socket that a packet comes from; 0 where it has none here. */
static __always_inline struct delay_socket *delay_sender(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return 0;
	return bpf_sk_storage_get(&delay_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("sockops")
int delay_pace(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct delay_socket *sender;
	__u64 rate = UNLIMITED, ahead_ns = 0;

	if (!sk)
		return 1;
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	else if (ops->op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	sender = bpf_sk_storage_get(&delay_sockets, sk, 0, 0);
	if (!sender || !sender->line)
		return 1;
	__u32 key = sender->line, rtt_us = ops->rtt_min;
	struct delay_config *line = bpf_map_lookup_elem(&delay_configs, &key);
	struct delay_state *state = bpf_map_lookup_elem(&delay_states, &key);

	if (line && state && (bpf_ktime_get_ns() - sender->charged_ns) / 1000 < STALE_US + 2 * (__u64)(ops->srtt_us >> 3)) {
		rate = state->fair_rate;
		ahead_ns = line->mark_ns;
		if (rtt_us < UNBOUND)
			state->rtt_us = state->rtt_us ? (((1 << RTT_MEAN_SHIFT) - 1) * (__u64)state->rtt_us + rtt_us) >> RTT_MEAN_SHIFT : rtt_us;
	}
	pace(ops, &sender->paced, rate);
	/* By the smoothed round-trip time bursts would grow with the queue that they make. */
	bound_cwnd(ops, &sender->paced, rate, rtt_us < UNBOUND ? rtt_us : ops->srtt_us >> 3, ahead_ns);
	return 1;
}

/* Asks for the callbacks of a socket that was open before. */
SEC("iter/tcp")
int delay_adopt(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = visited(ctx);

	if (tcp)
		ask_callbacks(tcp, BPF_SOCK_OPS_RTT_CB_FLAG);
	return 0;
}

/* Gives a socket back what it had. */
SEC("iter/tcp")
int delay_free(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = visited(ctx);
	struct delay_socket *sender = tcp ? bpf_sk_storage_get(&delay_sockets, tcp, 0, 0) : 0;

	if (sender)
		unpace(tcp, &sender->paced);
	return 0;
}

#endif
