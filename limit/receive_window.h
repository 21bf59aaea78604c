/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receive window of TCP sockets under an ingress limit: what a sender may have in flight is
 * what its receiver advertises, so a window of fair rate * round-trip time holds the sender to the
 * rate without a loss. The round-trip time is TCP's smoothed one, for a socket that only receives
 * that of the handshake; the fair rate makes up for the difference. A window has two segments at
 * least, so that acknowledgements are not delayed: where the rate leaves less, on short paths,
 * marks and drops do the rest.
 */
#ifndef WEIR_LIMIT_RECEIVE_WINDOW_H
#define WEIR_LIMIT_RECEIVE_WINDOW_H

#include "maps.h"
#include "pacing.h"

#define TCP_WINDOW_CLAMP 10

#define RWND_MOST 0x3fffffff

/*
 * Sets the window at or below what the application or the kernel's own tuning has set; restores it
 * without a limit. The tuning opens the window whenever the application has read more than before,
 * so every acknowledgement looks at it.
 */
static __always_inline void set_rwnd(struct bpf_sock_ops *ops, struct socket_state *known, struct allowance allowed)
{
	__u32 current = 0;
	__u64 window = allowed.rate < UNLIMITED ? allowed.rate * (ops->srtt_us >> 3) / 1000000 : RWND_MOST;

	window = at_least(window, tuned.rwnd_least * ops->mss_cache);
	/* Only a window that is wider than the socket's own need not be looked at each time. */
	if (!worth_reading(&known->rwnd_read, window) && !known->rwnd)
		return;
	if (bpf_getsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &current, sizeof(current)) || !current)
		return;
	if (!known->rwnd || current != known->rwnd)
		known->own_rwnd = current;
	__u32 value = window < known->own_rwnd ? window : known->own_rwnd, shift = tuned.rwnd_change_shift;

	if (value + (value >> shift) >= current && value <= current + (current >> shift))
		return;
	if (bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &value, sizeof(value)))
		return;
	known->rwnd = allowed.rate < UNLIMITED ? value : 0;
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &allowed.index);

	if (count && known->rwnd)
		count->windows++;
}

/*
 * Keeps the window. It is called before a segment or an acknowledgement is written, which then has
 * the new window; the callback for incoming segments (BPF_SOCK_OPS_PARSE_HDR_OPT_CB) leaves out
 * those that header prediction takes, which are nearly all.
 */
static __always_inline void receive(struct bpf_sock_ops *ops, struct socket_state *known)
{
	struct allowance allowed = allowance_of(known, LIMIT_INGRESS, UNBOUND);

	if (allowed.rate < UNLIMITED || known->rwnd)
		set_rwnd(ops, known, allowed);
}

#endif
