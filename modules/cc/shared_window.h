/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections that share one congestion window. LEDBAT++ keeps two segments per round trip, so
 * sixteen connections keep 32 beside other traffic and grow sixteen times as fast. Here they share:
 *
 *     min. window    2 / n segments, for n connections of the scope (or control) that were held at
 *                    it in the last seconds: their window is minimal and the delay exceeds TARGET.
 *                    Below one segment a connection pauses.
 *     growth         GAIN / m in congestion avoidance, for m connections of the path
 *     slowdowns      begin together on a path, so that its queue drains
 *     base delay     of the path. A connection that starts beside others never sees it empty, and
 *                    would take their queue for a part of it.
 *     delay          of the path, while a connection is held at the min. window
 *
 * Reductions are proportional to the window, so the sum of the windows behaves like one, and the
 * growth makes the windows equal. Counters are approximate: CPUs may race.
 */
#ifndef WEIR_CC_SHARED_WINDOW_H
#define WEIR_CC_SHARED_WINDOW_H

#include "delays.h"

#define SHARING_PERIOD 122071 /* ticks: 2 s; at least the longest pause of a connection */

/* Connections counted in periods. */
struct ledbat_count {
	__u32 began;  /* tick: start of the period */
	__u32 number; /* of the period; 0 before the first */
	__u32 in;     /* connections in this period */
	__u32 before; /* in the last one */
};

/* The periods in which a connection was counted last. */
struct ledbat_member {
	__u16 sharing;
	__u16 active;
};

/* The connections between two hosts. */
struct ledbat_path {
	struct ledbat_delays delays;
	struct ledbat_count active; /* connections with data */
	__u32 slowed;               /* tick: start of the last slowdown */
	__u32 sampled;              /* tick: last RTT sample of a paused connection, or its request */
};

/* Counts a connection once per period. */
static __always_inline void count_member(struct ledbat_count *c, __u16 *counted, __u32 now)
{
	__u32 began = c->began;

	if ((!c->number || has_passed(now, began, SHARING_PERIOD)) && __sync_val_compare_and_swap(&c->began, began, now) == began) {
		c->before = now - began >= 2 * SHARING_PERIOD ? 0 : c->in;
		c->in = 0;
		c->number++;
	}
	if (*counted == (__u16)c->number)
		return;
	*counted = c->number;
	__sync_fetch_and_add(&c->in, 1);
}

/* Returns the connections of this or the last period, at least 1. Periods end by a count only. */
static __always_inline __u32 members(const struct ledbat_count *c, __u32 now)
{
	__u32 most = c->in > c->before ? c->in : c->before;

	return most && !has_passed(now, c->began, 2 * SHARING_PERIOD) ? most : 1;
}

/* Gives a new connection the base delay of its path. */
static __always_inline void inherit_base(const struct ledbat_path *path, struct ledbat_delays *d)
{
#pragma unroll
	for (int i = 0; i < LEDBAT_MINUTES; i++)
		d->base[i] = path->delays.base[i];
}

/*
 * Adds a sample to the path, and takes over its minimum of this minute. The path takes none back:
 * minutes of connections begin at other ticks, so a minimum would go back and forth for ever.
 */
static __always_inline void share_delay(struct ledbat_path *path, struct ledbat_delays *d, __u32 rtt, __u32 now)
{
	rotate_minutes(&path->delays, now);
	if (rtt)
		add_delay(&path->delays, rtt);
	d->base[0] = smaller(d->base[0], path->delays.base[0]);
}

/* Gives a connection with few samples those of its path, which has none after an eviction. */
static __always_inline void take_delays(const struct ledbat_path *path, struct ledbat_delays *d)
{
	if (path->delays.recent[0] == UNKNOWN)
		return;
#pragma unroll
	for (int i = 0; i < 4; i++)
		d->recent[i] = path->delays.recent[i];
}

/* Reports whether another connection of the path began a slowdown in the last round trip. */
static __always_inline int is_path_slowing(const struct ledbat_path *path, __u32 began, __u32 now, __u32 srtt)
{
	return path->slowed && now - path->slowed <= us_to_ticks(srtt) && (__s32)(path->slowed - began) > 0;
}

/* Publishes the start of a slowdown, unless it follows another one. */
static __always_inline void slow_path(struct ledbat_path *path, __u32 now, __u32 srtt)
{
	if (now - path->slowed > us_to_ticks(srtt))
		path->slowed = now;
}

#endif /* WEIR_CC_SHARED_WINDOW_H */
