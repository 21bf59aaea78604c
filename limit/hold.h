/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Holding back acknowledgements, by which an ingress limit stops a TCP sender for some milliseconds
 * without a loss.
 *
 * On a path of some microseconds even two segments in each round trip, TCP's least congestion
 * window, are more than the limit, whatever marks say. A sender that is not acknowledged stops with
 * its window, and soon probes for a lost tail (RFC 8985 section 7): after two round trips and two
 * milliseconds, rounded up to its clock's ticks, it sends a segment beyond its congestion window, a
 * new one where the receive window has room. The acknowledgement of that one acknowledges all, and
 * the sender goes on. So nothing was lost, nothing is sent again, and no window is reduced.
 *
 * It takes two segments in flight, since a single one may wait for the receiver's delayed
 * acknowledgement and is probed for 200 ms later, and room in the receive window: a sender that
 * fills it, since its congestion window does not obey marks far enough, sends its last segment
 * again. Where that happens more often than not, and where holding back is not enough, the limit
 * drops.
 */
#ifndef WEIR_LIMIT_HOLD_H
#define WEIR_LIMIT_HOLD_H

#include "maps.h"
#include "packet.h"

#define HOLD_NS 1000000LL     /* until everything in flight has arrived, and before the first probe */
#define PROBED_NS 100000000LL /* a sender that was stopped for so long has not probed */
#define REPEAT 2              /* how much a probe without new data adds to what one with new data takes one from */
#define REPEATS_MOST 8        /* a sender that has got there is held back again once refusals have made its window smaller */

/*
 * Begins to hold back acknowledgements; 0 if that is of no use. What arrives until the sender stops
 * is passed.
 */
static __always_inline __u32 hold(struct socket_state *known, const struct packet *p)
{
	if (!known->segment)
		return 0;
	/* Also the probe, which is not ECN-capable where it is sent again (RFC 3168 section 6.1.5). */
	if (known->held_ns)
		return 1;
	if (!p->ecn || known->repeats >= REPEATS_MOST)
		return 0;
	known->held_ns = p->now;
	return 1;
}

/* Looks at the first segment after a pause: what holding back costs its sender. */
static __always_inline void judge_probe(struct socket_state *known, const struct packet *p)
{
	if (!known->held)
		return;
	__s64 since = bpf_ktime_get_ns() - known->held_ns;

	if (since < HOLD_NS)
		return;
	if (since > PROBED_NS || (__s32)(p->sequence - known->held) < 0)
		known->repeats += REPEAT;
	else if (known->repeats)
		known->repeats--;
	known->held = 0;
}

/*
 * Whether a packet that is about to leave is an acknowledgement to be held back. It is dropped: the
 * next one says the same and more. Data, signals and acknowledgements of a single segment leave.
 */
static __always_inline __u32 held_back(struct __sk_buff *skb, const struct packet *p, struct socket_state *known)
{
	if (!known->segment || p->protocol != IPPROTO_TCP)
		return 0;
	if (known->held_ns) {
		__s64 since = bpf_ktime_get_ns() - known->held_ns;

		if (since < HOLD_NS) {
			if (!p->urgent && skb->len == p->headers && p->acknowledged - known->acknowledged > known->segment) {
				known->held = p->acknowledged;
				return 1;
			}
		} else {
			known->held_ns = 0;
			known->held = 0;
		}
	}
	known->acknowledged = p->acknowledged;
	return 0;
}

#endif
