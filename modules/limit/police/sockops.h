/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is done to TCP sockets beside their packets. */
#ifndef WEIR_LIMIT_SOCKOPS_H
#define WEIR_LIMIT_SOCKOPS_H

#include "pacing.h"
#include "rtt.h"

/*
 * The callbacks that sockets are asked for: that for headers, which comes with every segment, only
 * where a scope limits ingress. They are never cleared: nobody can tell whether another program has
 * asked for the same.
 */
static __always_inline __u32 callbacks(const struct limit_settings *settings)
{
	return BPF_SOCK_OPS_RTT_CB_FLAG | (settings->ingress ? BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : 0);
}

/*
 * A number that changes with what the pace of a socket that no scope limits follows from: with the
 * intervals that its scopes have ended (fair.h), and with the clock's tick, for its own cwnd
 * changes too. All of them only grow. Hundreds of samples may have the same one.
 */
static __always_inline __u32 version(const struct socket_state *known)
{
	__u32 sum = bpf_jiffies64();

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= known->scopes.count)
			break;
		__u32 index = known->scopes.scope[i] * 2 + LIMIT_EGRESS;
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (state)
			sum += state->updates;
	}
	return sum;
}

/*
 * Keeps the receive window. The round-trip time is TCP's smoothed one, for a socket that only
 * receives that of the handshake; the fair rate makes up for the difference.
 */
static __always_inline void receive(struct bpf_sock_ops *ops, struct socket_state *known)
{
	struct allowance allowed = allowance_of(known, LIMIT_INGRESS, UNBOUND);
	__u64 window = RWND_MOST;
	struct limit_counters *count;

	if (allowed.rate >= UNLIMITED && !known->held.octets)
		return;
	if (allowed.rate < UNLIMITED)
		window = allowed.rate * (ops->srtt_us >> 3) / 1000000;
	if (!hold_window(ops, &known->held, window))
		return;
	count = bpf_map_lookup_elem(&limit_counts, &allowed.index);
	if (count)
		count->windows++;
}

/*
 * Senders are paced with their RTT samples; receivers, which have none, are handled with their
 * acknowledgements.
 */
SEC("sockops")
int limit_sockops(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	__u32 op = ops->op, first = 0;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);

	if (!sk || !settings)
		return 1;
	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | callbacks(settings));
	else if (op != BPF_SOCK_OPS_TCP_CONNECT_CB && op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, 0);

	if (!known)
		return 1;
	/* A socket that was connected before, to a remote that may be of other scopes. */
	if (op == BPF_SOCK_OPS_TCP_CONNECT_CB)
		known->generation = 0;
	if (!known->generation || !known->scopes.count)
		return 1;
	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		if (settings->ingress || known->held.octets)
			receive(ops, known);
		return 1;
	}
	__u32 now = version(known);

	if (op == BPF_SOCK_OPS_RTT_CB) {
		count_rtt(ops, known);
		if (now == known->pace_version)
			return 1;
	}
	struct allowance allowed = allowance_of(known, LIMIT_EGRESS, ops->rtt_min);

	known->pace_version = allowed.rate < allowed.most ? 0 : now;
	pace(ops, &known->paced, allowed.rate);
	bound_cwnd(ops, &known->paced, allowed.rate, ops->srtt_us >> 3, allowed.ahead_ns);
	return 1;
}

#endif
