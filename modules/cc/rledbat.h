/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rLEDBAT (RFC 9840): LEDBAT++ at the receiver, for downloads whose sender knows nothing of it. The
 * window that the receiver advertises holds the sender as its congestion window would:
 *
 *     SEG.WND = max(min(flow control's window, W), what was advertised before - what has arrived)
 *
 * The kernel never takes back what it has advertised, so W is only its bound (TCP_WINDOW_CLAMP).
 *
 *     delay       the least of the last four round-trip times beyond the least of ten minutes. A
 *                 round trip is from an acknowledgment to the first segment that echoes its
 *                 timestamp.
 *     loss        what fills a hole is newer, by its sender's timestamp, than what came beyond the
 *                 hole: it was sent again. What is as old as that has only been overtaken.
 *     limited     of the last round trip half of the window has come at least, or the window is
 *                 less than four segments, of which delayed acknowledgments let less come; else
 *                 whoever sends less than it may is not to be given more.
 *
 * What W does is what ledbat.bpf.c says of a sender's window, in octets for segments: gain, slow
 * start, slowdowns, and the two additions explore and tolerant. A window that was reduced is the
 * sender's one round trip later: as long as octets come that had been allowed before, delay does
 * not reduce it again.
 *
 * Nobody paces these senders. In slow start two segments follow each acknowledgment, so that the
 * end of a flight finds half of it waiting, however idle the path is: at 50 Mbit/s 40 segments are
 * 5 ms of queue. So with explore
 *
 *     slow start ends   by a queue that stands: if the least of a whole round trip shows it too (as
 *                       in RFC 9406, section 4.2), since the head of a flight meets no burst
 *     its growth        is a quarter while the delay is a quarter of TARGET, none beyond TARGET, so
 *                       that bursts stay about that long
 *
 * Congestion avoidance goes by the last four, and yields as soon as it did.
 */
#ifndef WEIR_CC_RLEDBAT_H
#define WEIR_CC_RLEDBAT_H

#include "ledbat.h"
#include "delays.h"

#define RLEDBAT_SHIFT 16      /* windows are in 2^-16 octets */
#define RLEDBAT_INITIAL 10    /* segments (RFC 6928) */
#define RLEDBAT_MOST (1 << 30) /* octets: the most that TCP can advertise */

/* What is known when an acknowledgment is written. */
struct rledbat_ack {
	__u32 now;   /* tick */
	__u32 rtt;   /* us; 0 without a sample */
	__u32 next;  /* sequence number: RCV.NXT */
	__u32 edge;  /* sequence number: the end of the window that was advertised last */
	__u32 mss;   /* octets */
	__u32 tsval; /* of the segment that came last */
	__u32 hole;  /* 1: octets have come that are not next to those before */
};

struct rledbat {
	__u64 window; /* 2^-16 octet */
	__u64 saved;  /* 2^-16 octet: the window before the slowdown */
	struct ledbat_delays delays;
	__u32 next;         /* RCV.NXT when last looked at */
	__u32 until;        /* tick at which the next slowdown begins, or its two round trips end */
	__u32 began;        /* tick at which the last slowdown began */
	__u32 srtt;         /* us */
	__u32 round_began;  /* tick */
	__u32 round_octets; /* since then */
	__u32 rate_octets;  /* that came in rate_us, the last whole round */
	__u32 rate_us;
	__u32 round_least;  /* us: the least round-trip time since round_began; or UNKNOWN */
	__u32 last_least;   /* us: that of the last whole round with one */
	__u32 hold;         /* octets to come that were allowed by a larger window */
	__u32 recovery;     /* octets to come until the next loss counts */
	__u32 hole_tsval;   /* of what came beyond the hole first */
	__u32 lost;         /* segments that were sent again, in this round */
	__u8 phase;         /* enum ledbat_phase; 0 before it begins */
	__u8 seen;          /* a queue of a quarter of the target was seen since the last slowdown */
	__u8 before;        /* and since the one before that, up to it */
	__u8 hole;
};

/* What a step has done. */
enum rledbat_done {
	RLEDBAT_SLOWED = 1, /* a slowdown began */
	RLEDBAT_REDUCED = 2, /* a loss took from the window */
};

static __always_inline void rledbat_begin(struct rledbat *r, __u32 now, __u32 next, __u32 mss)
{
	begin_delays(&r->delays, now);
	r->window = (__u64)(RLEDBAT_INITIAL * mss) << RLEDBAT_SHIFT;
	r->next = next;
	r->round_began = now;
	r->round_least = UNKNOWN;
	r->last_least = UNKNOWN;
	r->phase = LEDBAT_START;
}

static __always_inline __u32 rledbat_octets(__u64 window)
{
	return window >> RLEDBAT_SHIFT;
}

/* Moves the window by parts of an octet. */
static __always_inline void rledbat_move(struct rledbat *r, const struct rledbat_ack *ack, __s64 parts)
{
	__s64 window = r->window + parts, least = (__u64)(LEDBAT_MIN_WINDOW * ack->mss) << RLEDBAT_SHIFT;
	__s64 most = (__u64)RLEDBAT_MOST << RLEDBAT_SHIFT;

	r->window = window < least ? least : window > most ? most : window;
}

static __always_inline void rledbat_set(struct rledbat *r, const struct rledbat_ack *ack, __u64 window)
{
	r->window = window;
	rledbat_move(r, ack, 0);
}

static __always_inline __u32 rledbat_us(__u32 ticks)
{
	return ((__u64)ticks << LEDBAT_TICK_SHIFT) / 1000;
}

/* Counts octets by rounds of a round trip. */
static __always_inline void rledbat_round(struct rledbat *r, const struct rledbat_ack *ack, __u32 octets)
{
	__u32 us = rledbat_us(ack->now - r->round_began);

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
 * The queue that neither a whole round trip nor the delay has seen shorter, in us: a burst is in
 * the delay alone, and an answer that took its time in a round trip alone.
 */
static __always_inline __u32 rledbat_standing(const struct rledbat *r, __u32 base, __u32 delay)
{
	__u32 whole = r->last_least == UNKNOWN || r->last_least < base ? 0 : r->last_least - base;

	return whole < delay ? whole : delay;
}

static __always_inline int rledbat_limited(const struct rledbat *r, const struct rledbat_ack *ack)
{
	__u32 most = rledbat_octets(r->window) / 2;

	if (r->round_octets >= most || most < 2 * ack->mss)
		return 1;
	return r->rate_us && (__u64)r->rate_octets * r->srtt / r->rate_us >= most;
}

/* What the path delivers in a base delay and half of the target, and no more than the window. */
static __always_inline __u64 rledbat_fitting(const struct rledbat *r, __u32 base, __u32 target)
{
	__u64 octets;

	if (!r->rate_us)
		return r->window;
	octets = (__u64)r->rate_octets * (base + target / 2) / r->rate_us;
	return octets < rledbat_octets(r->window) ? octets << RLEDBAT_SHIFT : r->window;
}

/* Delay is that of the window until now, as long as what it has allowed comes. */
static __always_inline void rledbat_hold(struct rledbat *r, const struct rledbat_ack *ack)
{
	r->hold = ack->edge - ack->next;
}

/* Ends slow start; the next slowdown is at a tick. With explore least is left, or more. */
static __always_inline void rledbat_avoid(struct rledbat *r, const struct rledbat_ack *ack, const struct ledbat_tunables *t, __u32 next, __u32 base,
					  __u64 least)
{
	__u64 fitting = rledbat_fitting(r, base, t->target);

	r->phase = LEDBAT_AVOID;
	r->until = next;
	rledbat_hold(r, ack);
	if (!t->explore)
		return;
	/* What is lost of what the larger window has allowed asks for no less. */
	r->recovery = r->hold;
	rledbat_set(r, ack, fitting < least ? least : fitting);
}

static __always_inline void rledbat_slow_down(struct rledbat *r, const struct rledbat_ack *ack)
{
	r->phase = LEDBAT_DRAIN;
	r->began = ack->now;
	r->until = ack->now + 2 * ticks_of(r->srtt);
	r->saved = r->window;
	r->before = r->seen;
	r->seen = 0;
	rledbat_set(r, ack, 0);
}

/* What slow start adds: with explore less while a queue is seen, which may be a sender's burst. */
static __always_inline __u64 rledbat_rise(const struct ledbat_tunables *t, __u64 growth, int above, __u32 delay)
{
	if (!t->explore)
		return growth;
	if (delay > t->target)
		return 0;
	return above || delay >= t->target / 4 ? growth >> LEDBAT_EXPLORE_SHIFT : growth;
}

/* Slow start, the first one and that after a slowdown. */
static __always_inline void rledbat_climb(struct rledbat *r, const struct rledbat_ack *ack, const struct ledbat_tunables *t, __u64 growth, __u32 base,
					  __u32 delay)
{
	__u32 queue = t->explore ? rledbat_standing(r, base, delay) : delay;
	int again = r->phase == LEDBAT_CLIMB, above = again && r->window >= r->saved;
	__u32 pause = again ? 9 * (ack->now - r->began) : 2 * ticks_of(r->srtt);

	if (queue > t->target - t->target / 4)
		rledbat_avoid(r, ack, t, ack->now + pause, base, 0);
	else if (above && (!t->explore || queue >= t->target / 4))
		rledbat_avoid(r, ack, t, ack->now + pause, base, r->saved);
	else
		rledbat_move(r, ack, rledbat_rise(t, growth, above, delay));
}

/* What congestion avoidance adds for some octets of a window. */
static __always_inline __s64 rledbat_correction(const struct rledbat *r, const struct rledbat_ack *ack, __u32 target, __u32 octets, __u64 growth, __u32 delay)
{
	__u64 in_segments = rledbat_octets(r->window) / ack->mss;
	__s64 add = growth / (in_segments ? in_segments : 1);
	__s64 half = (__u64)octets << (RLEDBAT_SHIFT - 1);
	__u32 beyond = delay > target ? delay - target : 0;

	if (beyond > target) /* half at most, so no more need be known; the product stays small */
		beyond = target;
	__s64 take = ((__u64)octets << RLEDBAT_SHIFT) * beyond / target;
	return add - take < -half ? -half : add - take;
}

/* What a loss leaves of the window. */
static __always_inline __u64 rledbat_after_loss(const struct rledbat *r, const struct rledbat_ack *ack, const struct ledbat_tunables *t)
{
	__u32 base = base_of(&r->delays), delay = delay_of(&r->delays, base);
	int rising = r->phase == LEDBAT_START || r->phase == LEDBAT_CLIMB;

	if (!t->tolerant || base == UNKNOWN)
		return r->window / 2;
	if (rising && rledbat_standing(r, base, delay) < t->target / 4 && r->lost <= 1 + rledbat_octets(r->window) / ack->mss / 16)
		return r->window;
	if (!r->seen && !r->before)
		return r->window / 2;
	if (!delay)
		return r->window;
	__u64 rest = (__u64)rledbat_octets(r->window) * base / ((__u64)base + delay) << RLEDBAT_SHIFT;
	return rest < r->window / 2 ? r->window / 2 : rest;
}

static __always_inline int rledbat_reduce(struct rledbat *r, const struct rledbat_ack *ack, const struct ledbat_tunables *t)
{
	__u64 left = rledbat_after_loss(r, ack, t);

	if (left == r->window)
		return 0;
	r->recovery = ack->edge - ack->next;
	/* A slowdown that is going on is not cut short; its climb ends lower. */
	if (r->phase == LEDBAT_DRAIN) {
		r->saved /= 2;
		return RLEDBAT_REDUCED;
	}
	if (r->phase == LEDBAT_START)
		r->until = ack->now + 2 * ticks_of(r->srtt);
	else if (r->phase == LEDBAT_CLIMB)
		r->until = ack->now + 9 * (ack->now - r->began);
	r->phase = LEDBAT_AVOID;
	rledbat_set(r, ack, left);
	rledbat_hold(r, ack);
	return RLEDBAT_REDUCED;
}

/* Whether the octets that came next were sent again. */
static __always_inline int rledbat_lost(struct rledbat *r, const struct rledbat_ack *ack, __u32 octets)
{
	int again = r->hole && octets && (__s32)(ack->tsval - r->hole_tsval) > 0;

	if (ack->hole && !r->hole)
		r->hole_tsval = ack->tsval;
	r->hole = ack->hole;
	r->lost += again;
	return again;
}

static __always_inline __u32 rledbat_minus(__u32 left, __u32 octets)
{
	return left > octets ? left - octets : 0;
}

/* Looks at an acknowledgment that is to be written, whose window the new one is the bound of. */
static __always_inline int rledbat_step(struct rledbat *r, const struct rledbat_ack *ack, const struct ledbat_tunables *t)
{
	__u32 octets = ack->next - r->next, base, delay;
	int done = 0;

	r->next = ack->next;
	r->hold = rledbat_minus(r->hold, octets);
	r->recovery = rledbat_minus(r->recovery, octets);
	next_minute(&r->delays, ack->now);
	if (ack->rtt) {
		add_delay(&r->delays, ack->rtt);
		r->round_least = ack->rtt < r->round_least ? ack->rtt : r->round_least;
		r->srtt = r->srtt ? r->srtt - (r->srtt >> 3) + (ack->rtt >> 3) : ack->rtt;
	}
	rledbat_round(r, ack, octets);
	if (rledbat_lost(r, ack, octets) && !r->recovery)
		done |= rledbat_reduce(r, ack, t);
	base = base_of(&r->delays);
	if (!octets || base == UNKNOWN || !ack->mss)
		return done;
	delay = delay_of(&r->delays, base);
	if (delay >= t->target / 4)
		r->seen = 1;
	__u64 growth = rledbat_limited(r, ack) ? ((__u64)octets << RLEDBAT_SHIFT) / divisor_of(t->target, base) : 0;

	switch (r->phase) {
	case LEDBAT_START:
	case LEDBAT_CLIMB:
		rledbat_climb(r, ack, t, growth, base, delay);
		break;
	case LEDBAT_DRAIN:
		if ((__s32)(ack->now - r->until) >= 0)
			r->phase = LEDBAT_CLIMB;
		break;
	case LEDBAT_AVOID:
		if ((__s32)(ack->now - r->until) >= 0) {
			rledbat_slow_down(r, ack);
			return done | RLEDBAT_SLOWED;
		}
		if (!r->hold)
			rledbat_move(r, ack, rledbat_correction(r, ack, t->target, octets, growth, delay));
	}
	return done;
}

#endif /* WEIR_CC_RLEDBAT_H */
