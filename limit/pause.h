/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP senders that pause, and catch up.
 *
 * A call waits for its answer before the next. Pacing bridges that: TCP fixes when the next
 * super-packet may leave as one leaves, so that the round trip passes within its time. But where a
 * process then waits for its processor the time is over and others use the rate, hundreds of times
 * a second on a busy machine. So it is kept for how long a sender is behind: the time that passes
 * less what its octets take at the fair rate. Until it has caught up it is paced faster.
 *
 * It is behind by a mark threshold at most: if all of a scope's senders catch up at once, their
 * queue is no longer than that, less what the scope was not used for meanwhile. It is ahead by as
 * much at most, so that pauses that are few against what it sends, as those of large calls, make no
 * difference. One that has had nothing to send for longer is neither.
 */
#ifndef WEIR_LIMIT_PAUSE_H
#define WEIR_LIMIT_PAUSE_H

#include "pacing.h"

#define OVER_SHIFT 2   /* after four mark thresholds without an RTT sample the sender had nothing to send */
#define MEANT_SHIFT 4  /* who has all but a sixteenth of the fair rate is not behind; pacing is not more exact */
#define STEPS_SHIFT 3  /* how far it is behind is told in eighths of a mark threshold */
#define RAISE_SHIFT 2  /* for each the pace is a quarter of the fair rate faster: three times the fair rate at most */
#define PAUSE_LEAST 16 /* frames of a mark threshold at the fair rate; with fewer a call is long against its pauses */

/*
 * Measures for how long the socket is behind, ns, most at most; below 0 it is ahead. Its octets
 * take their time at the fair rate of then or now, whichever is lower: they were paced at that of
 * then.
 */
static __always_inline __s64 measure_behind(struct bpf_sock_ops *ops, struct socket_state *known, __u64 fair, __s64 most)
{
	__u64 now = bpf_ktime_get_ns(), elapsed = now - known->acked_ns;
	__u64 acked = ops->bytes_acked, octets = acked - known->acked, rate = known->fair < fair ? known->fair : fair;
	__s64 behind = 0;

	if (elapsed < (__u64)most << OVER_SHIFT && rate)
		behind = known->behind_ns + elapsed - (octets + (octets >> MEANT_SHIFT)) * SECOND / rate;
	if (behind > most)
		behind = most;
	if (behind < -most)
		behind = -most;
	known->acked_ns = now;
	known->acked = acked;
	known->fair = fair;
	known->behind_ns = behind;
	return behind;
}

/*
 * What the socket may be paced at, octet/s: the fair rate, and more while it catches up, the
 * scope's rate at most.
 */
static __always_inline __u64 catching_up(struct bpf_sock_ops *ops, struct socket_state *known, const struct allowance *allowed)
{
	__u64 fair = allowed->rate, most = allowed->ahead_ns;

	/* A scope that holds nobody back is not worth the clock. */
	if (ops->op != BPF_SOCK_OPS_RTT_CB || fair >= allowed->most || fair * most < PAUSE_LEAST * FRAME * SECOND)
		return fair;
	__s64 behind = measure_behind(ops, known, fair, most);

	if (behind <= 0)
		return fair;
	__u64 pace = fair + (fair >> RAISE_SHIFT) * (((__u64)behind << STEPS_SHIFT) / most);

	return pace < allowed->most ? pace : allowed->most;
}

#endif
