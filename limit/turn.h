/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Turns: when slow senders pass a full queue.
 *
 * A sender with nothing in flight passes it up to a ceiling, or it would sit out its probe timer.
 * But TCP paces none of its first ten segments, 15 s of the rate for 128 connections at 1 Mbit/s:
 * those that have had some pass shut the others out, and TCP gives a connection up whose probes
 * were refused 15 times, in 7 s. That timer is no harm to a sender whose pace leaves it less than a
 * segment in it. It passes a full queue once in the time of a segment and waits in between, so that
 * each has its turn. What it is refused TCP takes for sent: after ten trials it is paced.
 */
#ifndef WEIR_LIMIT_TURN_H
#define WEIR_LIMIT_TURN_H

#include "maps.h"
#include "packet.h"
#include "slow.h"

#define TURN_MOST (4 * SECOND) /* so that each has its turn before TCP gives up */

/*
 * The pace of a sender while the queue is full, octet/s: an equal part, or less where the fair rate
 * of slow senders is.
 */
static __always_inline __u64 turn_rate(const struct limit_state *state, const struct limit_fair_share *share, __u64 rate)
{
	__u64 equal = equal_part(share, rate);

	return slow(equal) && state->fair_rate < equal ? state->fair_rate | 1 : equal;
}

/*
 * How long the queue may be for a packet whose sender would sit out a timer, ns; the last part is
 * not for slow ones' data.
 */
static __always_inline __s64 ceiling_of(const struct terms *terms, __u64 pace)
{
	return terms->ceiling_ns - (pace && slow(pace) ? terms->drop_ns >> 1 : 0);
}

/*
 * Whether the sender of a packet of so many octets has its turn. An inner scope may have given it
 * for this very packet.
 */
static __always_inline __u32 has_turn(struct __sk_buff *skb, const struct packet *p, __u64 pace, __u64 wire)
{
	struct socket_state *known = socket_state_of(skb);
	__u64 pause = wire * SECOND / pace;

	if (!slow(pace) || !known || known->turn_ns == p->now)
		return 1;
	return (__u64)(p->now - known->turn_ns) >= (pause < TURN_MOST ? pause : TURN_MOST);
}

static __always_inline void take_turn(struct __sk_buff *skb, const struct packet *p)
{
	struct socket_state *known = socket_state_of(skb);

	if (known)
		known->turn_ns = p->now;
}

#endif
