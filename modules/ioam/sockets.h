/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The trace contexts that applications have said of their sockets (socket.bpf.c takes them). They
 * go with the socket, whose memory for options they count towards (net.core.optmem_max).
 */
#ifndef WEIR_IOAM_SOCKETS_H
#define WEIR_IOAM_SOCKETS_H

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ioam_socket);
} ioam_sockets SEC(".maps");

#ifdef WEIR_IOAM_MAPS_H
/* Keeps the context of the socket that a packet comes from; returns whether it has one. */
__attribute__((noinline)) int socket_context(struct __sk_buff *skb)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	struct bpf_sock *sk = skb->sk;
	struct ioam_socket *said;
	__u32 epoch;

	if (!w || !node || !node->sockets || !sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	said = bpf_sk_storage_get(&ioam_sockets, sk, 0, 0);
	if (!said)
		return 0;
	bpf_spin_lock(&said->lock);
	epoch = said->epoch;
	w->carried = said->context;
	bpf_spin_unlock(&said->lock);
	return epoch == node->sockets;
}
#endif

#endif /* WEIR_IOAM_SOCKETS_H */
