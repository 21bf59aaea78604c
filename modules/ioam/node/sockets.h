/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looks up the trace context of a packet's socket. */
#ifndef WEIR_IOAM_SOCKETS_H
#define WEIR_IOAM_SOCKETS_H

#include "maps.h"
#include "socket_map.h"

/* Copies the trace context of the packet's socket; returns 0 without one. */
__attribute__((noinline)) int socket_context(struct __sk_buff *skb)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	struct bpf_sock *sk = skb->sk;
	struct ioam_socket *stored;
	__u32 epoch;

	if (!w || !node || !node->sockets || !sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	stored = bpf_sk_storage_get(&ioam_sockets, sk, 0, 0);
	if (!stored)
		return 0;
	bpf_spin_lock(&stored->lock);
	epoch = stored->epoch;
	w->carried = stored->context;
	bpf_spin_unlock(&stored->lock);
	return epoch == node->sockets;
}

#endif /* WEIR_IOAM_SOCKETS_H */
