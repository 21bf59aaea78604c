/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fair rate of slow flows, which have less than a segment in TCP's probe timer.
 *
 * A flow of a segment in 1.5 s hears of a new rate with the acknowledgement of a segment, when the
 * next one's time is fixed: on average one and a half segments later it follows. An interval has
 * two segments of each at most, so a loop that took what was offered in it for an answer to the
 * last rate would swing. Here it is foreseen what flows will offer once they follow.
 */
#ifndef WEIR_LIMIT_SLOW_H
#define WEIR_LIMIT_SLOW_H

#include "fair_share.h"

#define PROBE_WAIT (SECOND / 5) /* the least that TCP's probe timer takes */
#define PAYLOAD 1448            /* of a frame, whose time TCP waits after it */
#define DRAINED_SHIFT 2         /* a queue is drained with a quarter of the rate */
#define NEARLY_SHIFT 4          /* an equal part less a sixteenth */

/* What is foreseen for the next window. */
struct prospect {
	__u64 bytes; /* that flows would have offered in this one, had they all followed */
	__u64 least; /* octet/s, of the fair rate */
	__s64 queue; /* that is to be drained, ns */
};

static __always_inline __u32 slow(__u64 rate)
{
	return rate < FRAME * (SECOND / PROBE_WAIT);
}

/* An equal part among the senders of a scope, octet/s, also among those that have just begun. */
static __always_inline __u64 equal_part(const struct limit_fair_share *share, __u64 rate)
{
	__u64 senders = at_least(share->counted, share->senders);

	return senders ? rate / senders | 1 : rate;
}

/*
 * Octets of the least census: slow senders of the last one could have sent one and a half segments
 * each by then. Where many have begun, a few take the place of all for a while.
 */
static __always_inline __u64 slow_census(const struct limit_fair_share *share, __u64 target)
{
	return share->senders && slow(target / share->senders) ? 3 * FRAME * share->senders / 2 : 0;
}

/*
 * The rate that flows followed on average in a window: the one of before for a segment and a half.
 */
static __always_inline __u64 followed(__u64 earlier, __u64 rate, __u64 elapsed)
{
	__u64 late = 3 * FRAME * SECOND / (2 * earlier | 1);

	return late < elapsed ? (earlier * late + rate * (elapsed - late)) / elapsed : earlier;
}

/*
 * Nearly an equal part, octet/s, of what a queue and others than the senders leave of the target.
 */
static __always_inline __u64 nearly_equal(__u64 target, __u64 taken, __u64 senders)
{
	__u64 rest = taken < target ? target - taken : 0;

	return senders ? (rest - (rest >> NEARLY_SHIFT)) / senders : 0;
}

/*
 * Looks ahead from a window in which bytes were offered and a queue stood. TCP takes a rate for
 * that of payload, so flows offer up to a sixteenth more; what is offered beyond is others'. Beyond
 * the drop threshold senders wait for their turn (turn.h) that would offer more. A queue as long as
 * the mark threshold is left: no packet waits in it, and it makes up for senders whose turns come
 * together and who then pause together.
 */
static __always_inline struct prospect prospect_of(const struct limit_fair_share *share, const struct terms *terms, __u64 target,
						   __u64 rate, __u64 bytes, __u64 elapsed, __s64 queue)
{
	__u64 mean = followed(share->earlier, rate, elapsed) | 1, offered = bytes * SECOND / elapsed;
	__u64 expected = share->senders * (mean + (mean >> NEARLY_SHIFT)), most = elapsed >> DRAINED_SHIFT;
	struct prospect next = {.queue = queue - terms->mark_ns};

	if (queue > terms->drop_ns)
		offered = at_least(offered, target * mean / rate);
	if (next.queue > (__s64)most)
		next.queue = most;
	__u64 taken = (offered > expected ? offered - expected : 0) + (next.queue > 0 ? target * next.queue / elapsed : 0);

	next.least = nearly_equal(target, taken, share->senders);
	next.bytes = offered * elapsed / SECOND * rate / mean;
	return next;
}

/*
 * The longest interval, ns, or as much of it as holds a whole number of turns at this rate: where
 * the turns of many come together, one interval has no more of them than the next.
 */
static __always_inline __u64 whole_turns(__u64 longest, __u64 rate)
{
	__u64 turn = PAYLOAD * SECOND / rate;

	return 2 * turn > longest ? longest : longest / turn * turn;
}

/*
 * How long a window was, ns, which the first packet after due has ended: the time until it came is
 * the next one's.
 */
static __always_inline __u64 ended_after(__u64 elapsed, __u64 due)
{
	return elapsed < due + (due >> 2) ? due : elapsed;
}

#endif
