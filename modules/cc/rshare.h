/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rLEDBAT with one window for all connections (shared_window.h).
 *
 * A window below one segment pauses the sender: it sends a part of a segment when its persist
 * timer fires (RFC 9293, section 3.8.6.1), after 200 ms or more. An RTT sample of such a segment
 * contains the pause and is ignored. A single segment gives no sample either, because the kernel
 * delays its acknowledgment. Therefore one of the path's small connections gets two segments each
 * 128 ms, and its sample counts for all.
 */
#ifndef WEIR_CC_RSHARE_H
#define WEIR_CC_RSHARE_H

#include "rledbat.h"
#include "shared_window.h"

#define RSHARE_MEASURE 7813 /* ticks: 128 ms */
#define RSHARE_PAIR 2       /* segments of a measurement */

/* The part of a connection. */
struct rshare {
	struct ledbat_member member;
	__u32 measures; /* 1: two segments may come, for an RTT sample */
};

/* rledbat_update() for one connection of a path and of a scope. */
static __always_inline int rshare_update(struct rledbat *r, struct rledbat_ack *ack, const struct ledbat_tunables *t,
				struct ledbat_path *path, struct ledbat_count *sharing, struct rshare *share)
{
	int small = rledbat_is_small(r, ack->mss), done;

	if (ack->paused)
		ack->rtt = 0;
	if (ack->next != r->next) {
		count_member(&path->active, &share->member.active, ack->now);
		if (rledbat_is_held_at_minimum(r, ack->mss, t->target))
			count_member(sharing, &share->member.sharing, ack->now);
	}
	ack->sharing = members(sharing, ack->now);
	ack->active = members(&path->active, ack->now);
	ack->slowing = !small && is_path_slowing(path, r->began, ack->now, r->srtt);
	share_delay(path, &r->delays, ack->rtt, ack->now);
	if (small)
		take_delays(path, &r->delays);
	/* The path is free again: slow start at once instead of after the next slowdown. */
	if (small && t->explore && ack->next != r->next && delay_of(&r->delays, base_of(&r->delays)) < t->target / 4) {
		r->phase = LEDBAT_CLIMB;
		r->began = ack->now;
	}
	done = rledbat_update(r, ack, t);
	if (done & RLEDBAT_SLOWED && !small)
		slow_path(path, ack->now, r->srtt);
	int turn = ack->now - path->sampled > RSHARE_MEASURE;

	/* Until the sample comes: the kernel raises the window one segment late. */
	share->measures = rledbat_bytes(r->window) < RSHARE_PAIR * ack->mss && (turn || (share->measures && !ack->rtt));
	if (turn && (share->measures || ack->rtt))
		path->sampled = ack->now;
	return done;
}

#endif /* WEIR_CC_RSHARE_H */
