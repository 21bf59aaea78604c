/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a connection of LEDBAT++, with its history of delays. */
#ifndef WEIR_CC_LEDBAT_STATE_H
#define WEIR_CC_LEDBAT_STATE_H

#define UNKNOWN 0xffffffff /* us: no sample yet */

/* The state of one connection, in its 104 octets of private memory. */
struct ledbat {
	__u32 base[LEDBAT_MINUTES]; /* us: least round-trip time of each minute, the current one first */
	__u32 recent[4];            /* us: the last round-trip times, the latest first */
	__u32 minute;               /* tick at which the current minute began */
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

static __always_inline __u32 ticks(void)
{
	return bpf_ktime_get_ns() >> LEDBAT_TICK_SHIFT;
}

static __always_inline __u32 ticks_of(__u32 us)
{
	return (__u64)us * 1000 >> LEDBAT_TICK_SHIFT;
}

static __always_inline __u32 base_of(struct ledbat *ca)
{
	__u32 least = UNKNOWN;

#pragma unroll
	for (int i = 0; i < LEDBAT_MINUTES; i++)
		least = ca->base[i] < least ? ca->base[i] : least;
	return least;
}

/* The queueing delay, in us. */
static __always_inline __u32 delay_of(struct ledbat *ca, __u32 base)
{
	__u32 least = UNKNOWN;

#pragma unroll
	for (int i = 0; i < 4; i++)
		least = ca->recent[i] < least ? ca->recent[i] : least;
	return least == UNKNOWN || least < base ? 0 : least - base;
}

static __always_inline void next_minute(struct ledbat *ca, __u32 now)
{
	if (now - ca->minute < LEDBAT_MINUTE)
		return;
	ca->minute = now;
#pragma unroll
	for (int i = LEDBAT_MINUTES - 1; i > 0; i--)
		ca->base[i] = ca->base[i - 1];
	ca->base[0] = UNKNOWN;
}

#endif /* WEIR_CC_LEDBAT_STATE_H */
