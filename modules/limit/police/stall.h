/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Losses that would stall a TCP sender. A sender repairs a loss within milliseconds if later
 * segments arrive and are acknowledged selectively (RFC 2018, RFC 8985). Without later segments, or
 * if the retransmission is lost too, it waits for its retransmission timer, 200 ms. A policer at
 * the receiver does not see the packets in flight, only its own drops. Up to the ceiling of four
 * drop thresholds it passes
 *
 * - segments before the end of the last dropped segment, which are retransmissions, and the first
 *   segment after that end, which reveals the hole;
 * - the end of a message (PSH), which may be the last segment, and SYN, FIN and RST.
 *
 * If the queue reaches the ceiling, retransmissions do not slow the senders enough: at a low rate
 * two segments of each exceed its share. After the drop of a retransmission, a sender waits for its
 * timer. The retransmission by the timer passes again, or the timer would double each time; all
 * pass again after some segments.
 */
#ifndef WEIR_LIMIT_STALL_H
#define WEIR_LIMIT_STALL_H

#include <linux/bpf.h>
#include <linux/in.h>

#include "fair_share.h"
#include "maps.h"
#include "packet.h"

#define RETRANSMIT_NS 4000000000LL /* lifetime of the record: sequence numbers repeat */
#define TIMER_NS 150000000LL   /* later retransmissions are sent by the timer, 200 ms at least */
#define CROWDED (16 * FRAME)   /* bytes between two drops from which retransmissions pass again */

static __always_inline __u32 awaits_retransmission(const struct socket_state *known, const struct packet *p)
{
	return known->dropped_ns && p->now - known->dropped_ns < RETRANSMIT_NS;
}

/* Reports whether a received segment passes above the threshold to prevent a stall. */
static __always_inline __u32 prevents_stall(struct __sk_buff *skb, const struct packet *p)
{
	struct socket_state *known = p->protocol == IPPROTO_TCP ? socket_state_of(skb) : 0;

	/* Without state, ends of messages would take the place of retransmissions in the queue. */
	if (!known)
		return 0;
	if (p->urgent)
		return 1;
	if (awaits_retransmission(known, p) && (__s32)(p->sequence - known->dropped_end) <= 0)
		return !known->crowded || p->now - known->dropped_ns > TIMER_NS;
	return 0;
}

/* Records a dropped segment. */
static __always_inline void record_drop(struct __sk_buff *skb, const struct packet *p, struct socket_state *known)
{
	if (p->protocol != IPPROTO_TCP)
		return;
	__u32 end = p->sequence + skb->len - p->headers;
	__s32 since = end - known->dropped_end;
	__u32 awaits = awaits_retransmission(known, p);

	if (!awaits || since >= CROWDED)
		known->crowded = 0;
	else if (since <= 0)
		known->crowded = 1;
	known->dropped_ns = p->now;
	if (!awaits || since > 0)
		known->dropped_end = end;
}

#endif
