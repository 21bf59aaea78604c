/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Explicit-rate pacing of TCP sockets. */
#ifndef WEIR_LIMIT_PACING_H
#define WEIR_LIMIT_PACING_H

#include "maps.h"

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define UNLIMITED 0xffffffffu

/* The smallest fair rate of the socket's scopes, octet/s. */
static __always_inline __u64 fair_rate(struct socket_state *known)
{
	__u64 rate = UNLIMITED;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= known->scopes.count)
			break;
		__u32 index = known->scopes.scope[i] * 2 + LIMIT_EGRESS;
		struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (!config || !state || (config->flags & (LIMIT_ENFORCED | LIMIT_SHADOW | LIMIT_CLASSIC)) != LIMIT_ENFORCED)
			continue;
		if (state->fair_rate < rate)
			rate = state->fair_rate;
	}
	return rate;
}

/* Paces the socket at the fair rate, or at the application's own rate where that is lower. */
static __always_inline void pace(struct bpf_sock_ops *ops, struct socket_state *known)
{
	__u32 current = UNLIMITED;

	if (bpf_getsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)))
		return;
	if (!known->pace || current != known->pace)
		known->application = current;
	__u64 rate = fair_rate(known);

	if (rate > known->application)
		rate = known->application;
	/* A change below 1.6 % is not worth a system call's work. */
	if (current != UNLIMITED && rate < current + (current >> 6) && rate + (current >> 6) > current)
		return;
	__u32 value = rate;

	if (value != current && !bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)))
		known->pace = value;
}

SEC("sockops")
int limit_sockops(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	if (!sk)
		return 1;
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	else if (ops->op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, 0);

	if (known && known->generation && known->scopes.count)
		pace(ops, known);
	return 1;
}

#endif
