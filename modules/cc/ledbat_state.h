/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a connection of LEDBAT++, with its history of delays. */
#ifndef WEIR_CC_LEDBAT_STATE_H
#define WEIR_CC_LEDBAT_STATE_H

#include "delays.h"

/* The state of one connection, in its 104 octets of private memory. */
struct ledbat {
	struct ledbat_delays delays;
	__u32 until;                /* tick at which the next slowdown begins, or its two round trips end */
	__u32 began;                /* tick at which the last slowdown began */
	__u32 saved;                /* segments: the window before it */
	__u32 part;                 /* of LEDBAT_ONE: what the window has beyond whole segments */
	__u32 delivered;            /* tcp_sock.delivered when last looked at */
	__u32 round;                /* delivered when the current round ends */
	__u32 lost;                 /* tcp_sock.lost when it began */
	__u32 prior_cwnd;           /* segments: before the last reduction */
	__u32 hold;                 /* delivered, until which delays are those of a larger window */
	__u8 phase;
	__u8 seen;   /* a queue of a quarter of the target was seen since the last slowdown */
	__u8 before; /* and since the one before that, up to it */
};

static __always_inline struct ledbat *state_of(struct sock *sk)
{
	return (struct ledbat *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

#endif /* WEIR_CC_LEDBAT_STATE_H */
