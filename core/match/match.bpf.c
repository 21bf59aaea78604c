//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bpf/match.h by itself: counts the scopes of datagrams and TCP sockets without any effect on them,
 * and exports the types shared with Go.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/match_packet.h"
#include "../../bpf/match_socket.h"
#include "../../bpf/match_decide.h"

char match_license[] SEC("license") = "Dual BSD/GPL";

#define SCOPES 64

/* Kinds that have scopes. */
enum match_kind match_kinds;

/* Used here, so that BTF has the type. */
const volatile enum match_bounds match_levels = MATCH_CGROUP_LEVELS;

/*
 * By scope: sent datagrams, received datagrams, ends of established connections, TCP packets.
 */
__u64 match_out[SCOPES], match_in[SCOPES], match_sockets[SCOPES], match_segments[SCOPES];

static __always_inline void count(const struct match_scopes *found, __u64 *counts)
{
	for (int i = 0; i < MATCH_SCOPES && i < found->count; i++)
		__sync_fetch_and_add(&counts[found->scope[i] & (SCOPES - 1)], 1);
}

static __always_inline void count_scopes(struct __sk_buff *skb, __u64 *counts)
{
	struct match_scopes found = {};
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : 0;
	if (sk && sk->protocol == IPPROTO_TCP)
		counts = match_segments;
	else if (!sk || sk->protocol != IPPROTO_UDP)
		return;
	match_own(skb, match_kinds, &found);
	match_path(skb, &(struct match_prefix){}, match_kinds & ~MATCH_PREFIXES, &found);
	count(&found, counts);
}

SEC("cgroup_skb/egress")
int match_egress(struct __sk_buff *skb)
{
	count_scopes(skb, match_out);
	return 1;
}

SEC("cgroup_skb/ingress")
int match_ingress(struct __sk_buff *skb)
{
	count_scopes(skb, match_in);
	return 1;
}

SEC("sockops")
int match_sockops(struct bpf_sock_ops *ops)
{
	struct match_scopes found = {};

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	match_socket(ops, match_kinds, &found);
	count(&found, match_sockets);
	return 1;
}
