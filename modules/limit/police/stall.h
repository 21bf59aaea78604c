/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments whose loss would stall a TCP sender. It repairs a loss within some milliseconds where a
 * later segment arrives, which its receiver acknowledges selectively (RFC 2018, RFC 8985); where
 * none does, or what it sends again is lost again, it sits out its retransmission timer, 200 ms. A
 * limit at the receiver does not know what is in flight, but what it has refused itself. Only
 * beyond the ceiling of four drop thresholds it refuses
 *
 *   - what lies before the end of the last refused segment, for it is sent again, and the segment
 *     behind that end, which tells of the hole;
 *   - the end of a message (PSH), behind which nothing else need follow, and requests to open or
 *     close a connection.
 *
 * Where the ceiling is met all the same, repairs do not slow the senders enough: at a low rate two
 * segments in each are more than their part. A sender whose repair was refused there is left to its
 * timer, what that sends is spared again, or the timer would double each time, and all repairs are
 * once some segments have come.
 */
#ifndef WEIR_LIMIT_STALL_H
#define WEIR_LIMIT_STALL_H

#include "maps.h"
#include "packet.h"

#define REPAIR_NS 4000000000LL /* how long a refused segment is waited for: sequence numbers repeat */
#define TIMER_NS 150000000LL   /* a repair that comes so much later is that of the timer, 200 ms at least */
#define CROWDED (16 * FRAME)   /* octets between two refusals, from which on repairs are spared again */

static __always_inline __u32 awaits_repair(const struct socket_state *known, const struct packet *p)
{
	return known->dropped_ns && p->now - known->dropped_ns < REPAIR_NS;
}

/*
 * Whether a received segment passes beyond the threshold, since its sender would stall without it.
 */
static __always_inline __u32 spared(struct __sk_buff *skb, const struct packet *p)
{
	struct socket_state *known = p->protocol == IPPROTO_TCP ? socket_state_of(skb) : 0;

	/* Where repairs cannot be told, ends of messages would take their place in the queue. */
	if (!known)
		return 0;
	if (p->urgent)
		return 1;
	if (awaits_repair(known, p) && (__s32)(p->sequence - known->dropped_end) <= 0)
		return !known->crowded || p->now - known->dropped_ns > TIMER_NS;
	return 0;
}

/* Remembers a segment that was refused. */
static __always_inline void remember_refusal(struct __sk_buff *skb, const struct packet *p, struct socket_state *known)
{
	if (p->protocol != IPPROTO_TCP)
		return;
	__u32 end = p->sequence + skb->len - p->headers;
	__s32 since = end - known->dropped_end;
	__u32 awaits = awaits_repair(known, p);

	if (!awaits || since >= CROWDED)
		known->crowded = 0;
	else if (since <= 0)
		known->crowded = 1;
	known->dropped_ns = p->now;
	if (!awaits || since > 0)
		known->dropped_end = end;
}

#endif
