/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive window of a local TCP socket. A sender has at most the advertised window in flight, so a
 * window of fair rate * RTT throttles it to the rate without loss. The policer (fair.h) and the
 * shaper (../shape/pacing.h) compute the rate. A window has at least two segments, so that
 * acknowledgements are not delayed: if the rate allows less, on short paths, marks and drops do the
 * rest.
 */
#ifndef WEIR_LIMIT_RECEIVE_WINDOW_H
#define WEIR_LIMIT_RECEIVE_WINDOW_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "pace.h"

#define TCP_WINDOW_CLAMP 10

#define RWND_MAX 0x3fffffff
#define RWND_MIN 2        /* segments */
#define RWND_FLOOR 1152     /* bytes: minimum of the kernel */
#define RWND_CHANGE_SHIFT 4 /* 2^-n; smaller changes are skipped */

/* Window state of a socket. */
struct clamped_window {
	__u32 octets; /* bytes of the last clamp; 0 without */
	__u32 own;    /* clamp by the application or by autotuning */
	struct sampled_read read;
};

/*
 * Clamps the window, up to the clamp of the application or of autotuning; RWND_MAX restores that.
 * Reports whether the clamp has changed. Autotuning opens the window after each larger read, so the
 * clamp is checked before every segment or acknowledgement (BPF_SOCK_OPS_HDR_OPT_LEN_CB), which
 * then carries the new window. The callback for incoming segments misses those handled by header
 * prediction, which are nearly all.
 */
static __always_inline int clamp_window(struct bpf_sock_ops *ops, struct clamped_window *held, __u64 window)
{
	__u32 current = 0, value, shift = RWND_CHANGE_SHIFT;
	__u64 lower = RWND_MIN * (__u64)ops->mss_cache;

	if (window < lower)
		window = lower;
	if (window < RWND_FLOOR)
		window = RWND_FLOOR;
	/* Without a clamp, sampled reads suffice. */
	if (!needs_read(&held->read, window) && !held->octets)
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
	held->octets = window < RWND_MAX ? value : 0;
	return held->octets != 0;
}

/* Restores the window; a clamp that the application has set since stays. */
static __always_inline void restore_window(struct tcp_sock *tcp, struct clamped_window *held)
{
	__u32 current = 0, own = held->own;

	if (!held->octets)
		return;
	if (!bpf_getsockopt(tcp, SOL_TCP, TCP_WINDOW_CLAMP, &current, sizeof(current)) && current == held->octets)
		bpf_setsockopt(tcp, SOL_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own));
	held->octets = 0;
}

#endif
