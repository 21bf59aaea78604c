/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receive window of a TCP socket of this host: what a sender may have in flight is what its
 * receiver advertises, so a window of fair rate * round-trip time holds the sender to the rate
 * without a loss. Both data planes of limits use it; fair.h and delay/flow.h say where rates are
 * from. A window has two segments at least, so that acknowledgements are not delayed: where the
 * rate leaves less, on short paths, marks and drops do the rest.
 */
#ifndef WEIR_LIMIT_RECEIVE_WINDOW_H
#define WEIR_LIMIT_RECEIVE_WINDOW_H

#include "pace.h"

#define TCP_WINDOW_CLAMP 10

#define RWND_MOST 0x3fffffff
#define RWND_LEAST 2        /* segments */
#define RWND_FLOOR 1152     /* octets: the kernel's own least bound */
#define RWND_CHANGE_SHIFT 4 /* 2^-n; a smaller change is not made */

/* What was set of a socket. */
struct held_window {
	__u32 octets; /* that its receive window was last clamped to; 0 while it is not */
	__u32 own;    /* what it was, by the application or the kernel's tuning */
	struct sampled_read read;
};

/*
 * Sets the window at or below what the application or the kernel's own tuning has set, or gives
 * that back (RWND_MOST); returns whether it has another bound now. The tuning opens the window
 * whenever the application has read more than before, so every acknowledgement looks at it: before
 * a segment or an acknowledgement is written (BPF_SOCK_OPS_HDR_OPT_LEN_CB), which then has the new
 * window. The callback for incoming segments leaves out those that header prediction takes, which
 * are nearly all.
 */
static __always_inline int hold_window(struct bpf_sock_ops *ops, struct held_window *held, __u64 window)
{
	__u32 current = 0, value, shift = RWND_CHANGE_SHIFT;
	__u64 least = RWND_LEAST * (__u64)ops->mss_cache;

	if (window < least)
		window = least;
	if (window < RWND_FLOOR)
		window = RWND_FLOOR;
	/* Only a window that is wider than the socket's own need not be looked at each time. */
	if (!worth_reading(&held->read, window) && !held->octets)
		return 0;
	if (bpf_getsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &current, sizeof(current)) || !current)
		return 0;
	if (!held->octets || current != held->octets)
		held->own = current;
	value = window < held->own ? window : held->own;
	if (value + (value >> shift) >= current && value <= current + (current >> shift))
		return 0;
	if (bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &value, sizeof(value)))
		return 0;
	held->octets = window < RWND_MOST ? value : 0;
	return held->octets != 0;
}

/* Gives a socket its own window back; what the application has set since is its own. */
static __always_inline void free_window(struct tcp_sock *tcp, struct held_window *held)
{
	__u32 current = 0, own = held->own;

	if (!held->octets)
		return;
	if (!bpf_getsockopt(tcp, SOL_TCP, TCP_WINDOW_CLAMP, &current, sizeof(current)) && current == held->octets)
		bpf_setsockopt(tcp, SOL_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own));
	held->octets = 0;
}

#endif
