/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is done to TCP sockets beside their packets. */
#ifndef WEIR_LIMIT_SOCKOPS_H
#define WEIR_LIMIT_SOCKOPS_H

#include "pause.h"
#include "rtt.h"
#include "window.h"

#define CALLBACKS (BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)

/* Senders are looked after with their RTT samples, receivers, which have none, with their acknowledgements. */
SEC("sockops")
int limit_sockops(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	__u32 op = ops->op;

	if (!sk)
		return 1;
	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | CALLBACKS);
	else if (op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, 0);

	if (!known || !known->generation || !known->scopes.count)
		return 1;
	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		receive(ops, known);
		return 1;
	}
	struct allowance allowed = allowance_of(known, LIMIT_EGRESS, ops->rtt_min);

	pace(ops, known, catching_up(ops, known, &allowed));
	bound_window(ops, known, allowed);
	if (op == BPF_SOCK_OPS_RTT_CB)
		count_rtt(ops, known);
	return 1;
}

#endif
