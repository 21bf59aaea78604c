/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Departure times that packets bring along: any user may give them to his datagrams (SO_TXTIME),
 * on any clock, and TCP gives them where it is paced, at a rate that any user may set. fq keeps
 * packets until then. So that nobody fills a device's queue with packets of later, or saves up a
 * limit to send at once, they may lie only so far behind the time that the packet's lines give it,
 * or behind now where they give none.
 */
#ifndef WEIR_DELAY_OWN_H
#define WEIR_DELAY_OWN_H

#define MONOTONIC 1 /* BPF_SKB_CLOCK_MONOTONIC */
#define OWN_DATAGRAM 10000000LL /* ns: senders that pace themselves look ahead by less */
#define OWN_STREAM 1000000000LL /* ns: two segments at 23 kbit/s; of a socket hardly more than that waits */

/* Bounds the departure time that a packet has to what is allowed beyond a time. */
static __always_inline void delay_bound(struct __sk_buff *skb, __s64 from)
{
	__s64 most = from + OWN_DATAGRAM, own = skb->tstamp;
	struct bpf_sock *sk = skb->sk;

	if (own <= most)
		return;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	if (sk && sk->protocol == IPPROTO_TCP)
		most = from + OWN_STREAM;
	if (own > most && bpf_skb_set_tstamp(skb, most, MONOTONIC))
		skb->tstamp = 0; /* neither IPv4 nor IPv6 */
}

#endif
