/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bounds on the departure times that senders set themselves (SO_TXTIME, SO_MAX_PACING_RATE).
 *
 * fq keeps a packet until its departure time, so an unprivileged user could fill a device's queue
 * with far-future packets, or collect a backlog and release it at once. A packet may therefore
 * depart at most OWN_DATAGRAM (TCP: OWN_STREAM) after the time that its shapers assign, or after
 * now if it has no shaper.
 */
#ifndef WEIR_SHAPE_TXTIME_H
#define WEIR_SHAPE_TXTIME_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#define MONOTONIC 1 /* BPF_SKB_CLOCK_MONOTONIC */
#define OWN_DATAGRAM 10000000LL /* ns; self-paced senders schedule less than that ahead */
#define OWN_STREAM 1000000000LL /* ns; two segments at 23 kbit/s, about as much as a TCP socket queues in fq */

/* Lowers skb->tstamp to base plus the sender's allowance. */
static __always_inline void bound_txtime(struct __sk_buff *skb, __s64 base)
{
	__s64 max = base + OWN_DATAGRAM, own = skb->tstamp;
	struct bpf_sock *sk = skb->sk;

	if (own <= max)
		return;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	if (sk && sk->protocol == IPPROTO_TCP)
		max = base + OWN_STREAM;
	if (own > max && bpf_skb_set_tstamp(skb, max, MONOTONIC))
		skb->tstamp = 0; /* neither IPv4 nor IPv6 */
}

#endif
