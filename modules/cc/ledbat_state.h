/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a connection of LEDBAT++, with its history of delays. */
#ifndef WEIR_CC_LEDBAT_STATE_H
#define WEIR_CC_LEDBAT_STATE_H

#include "shared_window.h"

/* The state of one connection, in its 104 bytes of private memory. */
struct ledbat {
	struct ledbat_delays delays;
	__u32 until;                /* tick: start of the next slowdown, or end of its two round trips */
	__u32 began;                /* tick: start of the last slowdown */
	__u32 saved;                /* segments: the window before it */
	__u32 part;                 /* in units of LEDBAT_ONE: fraction of the window */
	__u32 delivered;            /* tcp_sock.delivered at the last update */
	__u32 round;                /* value of delivered at the end of the round */
	__u32 lost;                 /* tcp_sock.lost at its start */
	__u32 prior_cwnd;           /* segments: before the last reduction */
	__u32 hold;                 /* value of delivered up to which delays belong to a larger window */
	struct ledbat_member member;
	__u8 phase;
	__u8 seen;   /* delay reached TARGET/4 since the last slowdown */
	__u8 before; /* seen, at the start of the last slowdown */
};

static __always_inline struct ledbat *state_of(struct sock *sk)
{
	return (struct ledbat *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

#endif /* WEIR_CC_LEDBAT_STATE_H */
