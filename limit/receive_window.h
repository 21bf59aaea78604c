/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receive window of TCP sockets under an ingress limit: what a sender may have in flight is
 * what its receiver advertises, so a window of fair rate * round-trip time holds the sender to the
 * rate without a loss. The round-trip time is TCP's smoothed one, for a socket that only receives
 * that of the handshake; the fair rate makes up for the difference. A window has two segments at
 * least: where the rate leaves less, on short paths, marks, suppressed acknowledgements (hold.h)
 * and drops do the rest.
 */
#ifndef WEIR_LIMIT_RECEIVE_WINDOW_H
#define WEIR_LIMIT_RECEIVE_WINDOW_H

#include "hold.h"
#include "pacing.h"

#define TCP_WINDOW_CLAMP 10
#define TCP_ECN_OK 1 /* of bpf_tcp_sock.ecn_flags */
#define RWND_MOST 0x3fffffff

/*
 * Whether the sender's congestion window obeys marks; other bits of these flags are of no
 * negotiation.
 */
static __always_inline __u32 obeys_marks(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct bpf_tcp_sock *tcp = sk ? bpf_tcp_sock(sk) : 0;

	return tcp && tcp->ecn_flags & TCP_ECN_OK;
}

/*
 * Lets delayed acknowledgements wait for so many us at most; not 0 where the kernel does not take
 * it.
 */
static __always_inline int delay_acknowledgements(struct bpf_sock_ops *ops, __u32 us)
{
	return bpf_setsockopt(ops, SOL_TCP, TCP_BPF_DELACK_MAX, &us, sizeof(us));
}

/*
 * Lets delayed acknowledgements wait for two ticks of the kernel's clock, the least that it takes,
 * where they wait for 40 ms: that of a probe (hold.h) may be one.
 */
static __always_inline void acknowledge_soon(struct bpf_sock_ops *ops, struct socket_state *known)
{
	known->prompt = 1;
	/* Of 1000, 250 and 100 Hz. */
	if (delay_acknowledgements(ops, 2000) && delay_acknowledgements(ops, 8000))
		delay_acknowledgements(ops, 20000);
}

/*
 * The least window: two segments, so that acknowledgements are not delayed, and on a short path
 * eight for a sender that obeys marks, so that it has room for a probe where its acknowledgements
 * are suppressed (hold.h). One that is held back opens the window no further than two, or the
 * kernel would think the probe too little to acknowledge at once.
 */
static __always_inline __u64 least_rwnd(struct bpf_sock_ops *ops, struct socket_state *known, __u64 window)
{
	__u32 mss = ops->mss_cache, few = tuned.rwnd_least * mss, many = tuned.rwnd_probe * mss;
	__u32 brief = (ops->srtt_us >> 3) * 1000LL < HOLD_NS;

	known->segment = window < many && brief && known->repeats < REPEATS_MOST && obeys_marks(ops) ? mss : 0;
	if (!known->segment)
		return window < few ? few : window;
	if (!known->prompt)
		acknowledge_soon(ops, known);
	return known->held_ns ? few : many;
}

/*
 * Sets the window at or below what the application or the kernel's own tuning has set; restores it
 * without a limit. The tuning opens the window whenever the application has read more than before,
 * so every acknowledgement looks at it.
 */
static __always_inline void set_rwnd(struct bpf_sock_ops *ops, struct socket_state *known, struct allowance allowed)
{
	__u32 current = 0;
	__u64 window = allowed.rate < UNLIMITED ? allowed.rate * (ops->srtt_us >> 3) / 1000000 : RWND_MOST;

	window = least_rwnd(ops, known, window);
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
