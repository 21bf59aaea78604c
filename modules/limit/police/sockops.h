/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pacing and receive windows of TCP sockets. */
#ifndef WEIR_LIMIT_SOCKOPS_H
#define WEIR_LIMIT_SOCKOPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "pace.h"
#include "pacing.h"
#include "receive_window.h"
#include "rtt.h"

/*
 * Returns the callbacks to request. The header callback, one per segment, is needed only if a scope
 * limits ingress. Flags are never cleared, since another program may have requested the same.
 */
static __always_inline __u32 needed_callbacks(const struct limit_settings *settings)
{
	return BPF_SOCK_OPS_RTT_CB_FLAG | (settings->ingress ? BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : 0);
}

/*
 * Returns a number that changes with each input of the pace of an unlimited socket: with the
 * intervals of its scopes (fair.h), and with the clock tick, since its cwnd changes too. All inputs
 * only grow. Hundreds of samples may have the same number.
 */
static __always_inline __u32 pace_version(const struct socket_state *known)
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
 * Sets the receive window, from the smoothed RTT. A socket that only receives has only the RTT of
 * its handshake; the fair rate compensates for the difference.
 */
static __always_inline void update_window(struct bpf_sock_ops *ops, struct socket_state *known)
{
	struct allowance allowed = lookup_allowance(known, LIMIT_INGRESS, UNBOUND);
	__u64 window = RWND_MAX;
	struct limit_counters *count;

	if (allowed.rate >= UNLIMITED && !known->held.octets)
		return;
	if (allowed.rate < UNLIMITED)
		window = allowed.rate * (ops->srtt_us >> 3) / 1000000;
	if (!clamp_window(ops, &known->held, window))
		return;
	count = bpf_map_lookup_elem(&limit_counts, &allowed.index);
	if (count)
		count->windows++;
}

/*
 * Sets the pace of senders with their RTT samples, and the window of receivers, which have no
 * samples, with their acknowledgements.
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
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | needed_callbacks(settings));
	else if (op != BPF_SOCK_OPS_TCP_CONNECT_CB && op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, 0);

	if (!known)
		return 1;
	/* A reconnected socket may have other scopes. */
	if (op == BPF_SOCK_OPS_TCP_CONNECT_CB)
		known->generation = 0;
	/* A socket with a route outside of all scopes gets its own pace and window back. */
	if (!known->generation || !(known->scopes.count || known->paced.rate || known->paced.cwnd || known->held.octets))
		return 1;
	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		if (settings->ingress || known->held.octets)
			update_window(ops, known);
		return 1;
	}
	__u32 now = pace_version(known);

	if (op == BPF_SOCK_OPS_RTT_CB) {
		count_rtt(ops, known);
		if (now == known->pace_version)
			return 1;
	}
	struct allowance allowed = lookup_allowance(known, LIMIT_EGRESS, ops->rtt_min);

	known->pace_version = allowed.rate < allowed.upper ? 0 : now;
	pace(ops, &known->paced, allowed.rate);
	bound_cwnd(ops, &known->paced, allowed.rate, ops->srtt_us >> 3, allowed.ahead_ns);
	if (!known->scopes.count)
		known->paced = (struct paced){};
	return 1;
}

#endif
