/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rLEDBAT (RFC 9840): LEDBAT++ at the receiver, for downloads from senders without it. The receive
 * window limits the sender like a congestion window W:
 *
 *     SEG.WND = max(min(flow control window, W), previously advertised window - received bytes)
 *
 * The kernel never shrinks an advertised window, so W is its upper bound (TCP_WINDOW_CLAMP).
 *
 *     delay       min. of the last four RTT samples minus the min. of ten minutes. A sample is the
 *                 time from an acknowledgment to the first segment that echoes its timestamp.
 *     loss        a segment that fills a hole is a retransmission if its timestamp is newer than
 *                 the first timestamp beyond the hole, otherwise it was reordered.
 *     limited     at least half of W arrived in the last round trip, or W is below four segments,
 *                 where delayed acknowledgments hide the use. Otherwise W does not grow.
 *
 * W follows the rules of ledbat.bpf.c in bytes instead of segments: gain, slow start, slowdowns,
 * and the additions explore and tolerant. The sender follows a reduction one round trip later:
 * until the bytes allowed by the old window have arrived, delay does not reduce W again.
 *
 * These senders are not paced. In slow start two segments follow each acknowledgment, so the end of
 * a flight waits behind half of it even on an idle path: 40 segments at 50 Mbit/s are 5 ms of
 * queue. Therefore, with explore:
 *
 *     slow start ends     on a standing queue: the min. RTT of a whole round trip shows it too (as
 *                         in RFC 9406, section 4.2), because the head of a flight meets no burst
 *     slow start growth   is a quarter from a delay of TARGET/4 on, zero above TARGET, so bursts
 *                         stay about that long
 *
 * Congestion avoidance uses the last four samples and yields at once.
 */
#ifndef WEIR_CC_RLEDBAT_H
#define WEIR_CC_RLEDBAT_H

#include "ledbat.h"
#include "delays.h"

#define RLEDBAT_SHIFT 16      /* windows are in 2^-16 bytes */
#define RLEDBAT_INITIAL 10    /* segments (RFC 6928) */
#define RLEDBAT_MAX_WINDOW (1 << 30) /* bytes: max. window of TCP */

/* The connection when an acknowledgment is written. */
struct rledbat_ack {
	__u32 now;   /* tick */
	__u32 rtt;   /* us; 0 without a sample */
	__u32 next;  /* sequence number: RCV.NXT */
	__u32 edge;  /* sequence number: end of the last advertised window */
	__u32 mss;   /* bytes */
	__u32 tsval; /* of the last segment */
	__u32 hole;  /* 1: out-of-order data is queued */
	__u32 sharing; /* connections that share the min. window (shared_window.h); 0 for 1 */
	__u32 active;  /* connections that share the growth; 0 for 1 */
	__u32 slowing; /* 1: another connection began a slowdown */
	__u32 paused;  /* 1: the last window was below one segment */
};

struct rledbat {
	__u64 window; /* 2^-16 bytes */
	__u64 saved;  /* 2^-16 bytes: the window before the slowdown */
	struct ledbat_delays delays;
	__u32 next;         /* RCV.NXT at the last update */
	__u32 until;        /* tick: start of the next slowdown, or end of its two round trips */
	__u32 began;        /* tick: start of the last slowdown */
	__u32 srtt;         /* us */
	__u32 round_began;  /* tick */
	__u32 round_octets; /* bytes since round_began */
	__u32 rate_octets;  /* bytes received in rate_us, the last complete round */
	__u32 rate_us;
	__u32 round_least;  /* us: min. RTT since round_began, or UNKNOWN */
	__u32 last_least;   /* us: min. RTT of the last round with samples */
	__u32 hold;         /* bytes to come that a larger window allowed */
	__u32 recovery;     /* bytes to come until the next loss counts */
	__u32 hole_tsval;   /* timestamp of the first segment beyond the hole */
	__u32 lost;         /* retransmissions in this round */
	__u8 phase;         /* enum ledbat_phase; 0 before the start */
	__u8 seen;          /* delay reached TARGET/4 since the last slowdown */
	__u8 before;        /* seen, at the start of the last slowdown */
	__u8 hole;
};

/* Events of an update, or-ed. */
enum rledbat_done {
	RLEDBAT_SLOWED = 1, /* a slowdown began */
	RLEDBAT_REDUCED = 2, /* a loss reduced the window */
};

static __always_inline void rledbat_init(struct rledbat *r, __u32 now, __u32 next, __u32 mss)
{
	init_delays(&r->delays, now);
	r->window = (__u64)(RLEDBAT_INITIAL * mss) << RLEDBAT_SHIFT;
	r->next = next;
	r->began = now;
	r->round_began = now;
	r->round_least = UNKNOWN;
	r->last_least = UNKNOWN;
	r->phase = LEDBAT_START;
}

static __always_inline __u32 rledbat_bytes(__u64 window)
{
	return window >> RLEDBAT_SHIFT;
}

/* Returns this connection's share of the min. window, in 2^-16 bytes. */
static __always_inline __u64 rledbat_least(const struct rledbat_ack *ack)
{
	return ((__u64)(LEDBAT_MIN_WINDOW * ack->mss) << RLEDBAT_SHIFT) / (ack->sharing ? ack->sharing : 1);
}

/* Adds 2^-16 bytes to the window, within its bounds. */
static __always_inline void rledbat_add(struct rledbat *r, const struct rledbat_ack *ack, __s64 parts)
{
	__s64 window = r->window + parts, least = rledbat_least(ack);
	__s64 most = (__u64)RLEDBAT_MAX_WINDOW << RLEDBAT_SHIFT;

	r->window = window < least ? least : window > most ? most : window;
}

static __always_inline void rledbat_set(struct rledbat *r, const struct rledbat_ack *ack, __u64 window)
{
	r->window = window;
	rledbat_add(r, ack, 0);
}

static __always_inline __u32 ticks_to_us(__u32 ticks)
{
	return ((__u64)ticks << LEDBAT_TICK_SHIFT) / 1000;
}

/* Counts bytes and ends the round after one round trip. */
static __always_inline void rledbat_count_round(struct rledbat *r, const struct rledbat_ack *ack,
				__u32 octets)
{
	__u32 us = ticks_to_us(ack->now - r->round_began);

	r->round_octets += octets;
	if (!r->srtt || us < r->srtt)
		return;
	r->rate_octets = r->round_octets;
	r->rate_us = us;
	r->round_octets = 0;
	r->round_began = ack->now;
	r->lost = 0;
	if (r->round_least != UNKNOWN)
		r->last_least = r->round_least;
	r->round_least = UNKNOWN;
}

/*
 * Returns the standing queue in us: the smaller of the last round's min. RTT beyond base, and the
 * delay. A burst raises only the delay, a slow application only the round's RTT.
 */
static __always_inline __u32 rledbat_standing_queue(const struct rledbat *r, __u32 base, __u32 delay)
{
	__u32 whole = r->last_least == UNKNOWN || r->last_least < base ? 0 : r->last_least - base;

	return whole < delay ? whole : delay;
}

static __always_inline int rledbat_is_limited(const struct rledbat *r, const struct rledbat_ack *ack)
{
	__u32 most = rledbat_bytes(r->window) / 2;

	if (r->round_octets >= most || most < 2 * ack->mss)
		return 1;
	return r->rate_us && (__u64)r->rate_octets * r->srtt / r->rate_us >= most;
}

/* Returns the bytes that the path delivers in base + TARGET/2, at most the window. */
static __always_inline __u64 rledbat_path_window(const struct rledbat *r, __u32 base, __u32 target)
{
	__u64 octets;

	if (!r->rate_us)
		return r->window;
	octets = (__u64)r->rate_octets * (base + target / 2) / r->rate_us;
	return octets < rledbat_bytes(r->window) ? octets << RLEDBAT_SHIFT : r->window;
}

/* Ignores delays until the bytes allowed by the present window have arrived. */
static __always_inline void rledbat_ignore_old_delays(struct rledbat *r, const struct rledbat_ack *ack)
{
	r->hold = ack->edge - ack->next;
}

/* Ends slow start. next is the tick of the next slowdown; explore keeps the window >= least. */
static __always_inline void rledbat_enter_avoidance(struct rledbat *r, const struct rledbat_ack *ack,
				const struct ledbat_tunables *t, __u32 next, __u32 base, __u64 least)
{
	__u64 fitting = rledbat_path_window(r, base, t->target);

	r->phase = LEDBAT_AVOID;
	r->until = next;
	rledbat_ignore_old_delays(r, ack);
	if (!t->explore)
		return;
	/* Losses of bytes that the larger window allowed do not reduce the window. */
	r->recovery = r->hold;
	rledbat_set(r, ack, fitting < least ? least : fitting);
}

static __always_inline void rledbat_enter_slowdown(struct rledbat *r, const struct rledbat_ack *ack)
{
	r->phase = LEDBAT_DRAIN;
	r->began = ack->now;
	r->until = ack->now + 2 * us_to_ticks(r->srtt);
	r->saved = r->window;
	r->before = r->seen;
	r->seen = 0;
	if (rledbat_bytes(r->window) > LEDBAT_MIN_WINDOW * ack->mss)
		r->window = (__u64)(LEDBAT_MIN_WINDOW * ack->mss) << RLEDBAT_SHIFT;
}

/* Reports whether a connection has at most the min. window of LEDBAT++, and so few RTT samples. */
static __always_inline int rledbat_is_small(const struct rledbat *r, __u32 mss)
{
	return r->phase == LEDBAT_AVOID && rledbat_bytes(r->window) <= LEDBAT_MIN_WINDOW * mss;
}

/* Reports whether that is because the delay exceeds TARGET. */
static __always_inline int rledbat_is_held_at_minimum(const struct rledbat *r, __u32 mss, __u32 target)
{
	return rledbat_is_small(r, mss) && delay_of(&r->delays, base_of(&r->delays)) > target;
}

/* Returns the growth in slow start; with explore less while there is a queue, maybe a burst. */
static __always_inline __u64 rledbat_slow_start_increment(const struct ledbat_tunables *t, __u64 growth,
				int above, __u32 delay)
{
	if (!t->explore)
		return growth;
	if (delay > t->target)
		return 0;
	return above || delay >= t->target / 4 ? growth >> LEDBAT_EXPLORE_SHIFT : growth;
}

/* Slow start, at the beginning and after a slowdown. */
static __always_inline void rledbat_slow_start(struct rledbat *r, const struct rledbat_ack *ack,
				const struct ledbat_tunables *t, __u64 growth, __u32 base, __u32 delay)
{
	__u32 queue = t->explore ? rledbat_standing_queue(r, base, delay) : delay;
	int again = r->phase == LEDBAT_CLIMB, above = again && r->window >= r->saved;
	__u32 pause = again ? 9 * (ack->now - r->began) : 2 * us_to_ticks(r->srtt);

	if (queue > t->target - t->target / 4)
		rledbat_enter_avoidance(r, ack, t, ack->now + pause, base, 0);
	else if (above && (!t->explore || queue >= t->target / 4))
		rledbat_enter_avoidance(r, ack, t, ack->now + pause, base, r->saved);
	else
		rledbat_add(r, ack, rledbat_slow_start_increment(t, growth, above, delay));
}

/* Returns the change of the window in congestion avoidance for some received bytes. */
static __always_inline __s64 rledbat_avoidance_increment(const struct rledbat *r,
				const struct rledbat_ack *ack, __u32 target, __u32 octets, __u64 growth, __u32 delay)
{
	__u64 in_segments = rledbat_bytes(r->window) / ack->mss;
	__s64 add = growth / (in_segments ? in_segments : 1) / (ack->active ? ack->active : 1);
	__s64 half = (__u64)octets << (RLEDBAT_SHIFT - 1);
	__u32 beyond = delay > target ? delay - target : 0;

	if (beyond > target) /* the result is at least -half; avoids an overflow */
		beyond = target;
	__s64 take = ((__u64)octets << RLEDBAT_SHIFT) * beyond / target;
	return add - take < -half ? -half : add - take;
}

/* Returns the window after a loss. */
static __always_inline __u64 rledbat_window_after_loss(const struct rledbat *r,
				const struct rledbat_ack *ack, const struct ledbat_tunables *t)
{
	__u32 base = base_of(&r->delays), delay = delay_of(&r->delays, base);
	int rising = r->phase == LEDBAT_START || r->phase == LEDBAT_CLIMB;

	if (!t->tolerant || base == UNKNOWN)
		return r->window / 2;
	if (rising && rledbat_standing_queue(r, base, delay) < t->target / 4 && r->lost <= 1 + rledbat_bytes(r->window) / ack->mss / 16)
		return r->window;
	if (!r->seen && !r->before)
		return r->window / 2;
	if (!delay)
		return r->window;
	__u64 rest = (__u64)rledbat_bytes(r->window) * base / ((__u64)base + delay) << RLEDBAT_SHIFT;
	return rest < r->window / 2 ? r->window / 2 : rest;
}

static __always_inline int rledbat_reduce_on_loss(struct rledbat *r, const struct rledbat_ack *ack,
				const struct ledbat_tunables *t)
{
	__u64 left = rledbat_window_after_loss(r, ack, t);

	if (left == r->window)
		return 0;
	r->recovery = ack->edge - ack->next;
	/* A running slowdown continues; its slow start ends lower. */
	if (r->phase == LEDBAT_DRAIN) {
		r->saved /= 2;
		return RLEDBAT_REDUCED;
	}
	if (r->phase == LEDBAT_START)
		r->until = ack->now + 2 * us_to_ticks(r->srtt);
	else if (r->phase == LEDBAT_CLIMB)
		r->until = ack->now + 9 * (ack->now - r->began);
	r->phase = LEDBAT_AVOID;
	rledbat_set(r, ack, left);
	rledbat_ignore_old_delays(r, ack);
	return RLEDBAT_REDUCED;
}

/* Reports whether the new bytes are a retransmission. */
static __always_inline int rledbat_is_retransmission(struct rledbat *r, const struct rledbat_ack *ack,
				__u32 octets)
{
	int again = r->hole && octets && (__s32)(ack->tsval - r->hole_tsval) > 0;

	if (ack->hole && !r->hole)
		r->hole_tsval = ack->tsval;
	r->hole = ack->hole;
	r->lost += again;
	return again;
}

static __always_inline __u32 saturating_sub(__u32 left, __u32 octets)
{
	return left > octets ? left - octets : 0;
}

/* Updates the window before an acknowledgment is written. Returns enum rledbat_done. */
static __always_inline int rledbat_update(struct rledbat *r, const struct rledbat_ack *ack,
				const struct ledbat_tunables *t)
{
	__u32 octets = ack->next - r->next, base, delay;
	int done = 0;

	r->next = ack->next;
	r->hold = saturating_sub(r->hold, octets);
	r->recovery = saturating_sub(r->recovery, octets);
	rotate_minutes(&r->delays, ack->now);
	if (ack->rtt) {
		add_delay(&r->delays, ack->rtt);
		r->round_least = smaller(ack->rtt, r->round_least);
		r->srtt = r->srtt ? r->srtt - (r->srtt >> 3) + (ack->rtt >> 3) : ack->rtt;
	}
	rledbat_count_round(r, ack, octets);
	if (rledbat_is_retransmission(r, ack, octets) && !r->recovery)
		done |= rledbat_reduce_on_loss(r, ack, t);
	base = base_of(&r->delays);
	if (!octets || base == UNKNOWN || !ack->mss)
		return done;
	delay = delay_of(&r->delays, base);
	if (delay >= t->target / 4)
		r->seen = 1;
	__u64 growth = rledbat_is_limited(r, ack) ? ((__u64)octets << RLEDBAT_SHIFT) / gain_divisor(t->target, base) : 0;

	switch (r->phase) {
	case LEDBAT_START:
	case LEDBAT_CLIMB:
		rledbat_slow_start(r, ack, t, growth, base, delay);
		break;
	case LEDBAT_DRAIN:
		if ((__s32)(ack->now - r->until) >= 0)
			r->phase = LEDBAT_CLIMB;
		break;
	case LEDBAT_AVOID:
		if ((__s32)(ack->now - r->until) >= 0 || ack->slowing) {
			rledbat_enter_slowdown(r, ack);
			return done | RLEDBAT_SLOWED;
		}
		if (!r->hold)
			rledbat_add(r, ack, rledbat_avoidance_increment(r, ack, t->target, octets, growth, delay));
	}
	return done;
}

#endif /* WEIR_CC_RLEDBAT_H */
