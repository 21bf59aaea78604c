/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Explicit-rate pacing of a local TCP socket, with a matching bound of its congestion window. The
 * policer (fair.h) and the shaper (../shape/pacing.h) compute the rate.
 */
#ifndef WEIR_LIMIT_PACE_H
#define WEIR_LIMIT_PACE_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define UNLIMITED 0xffffffffu
#define SOL_TCP 6
#define UNBOUND 0x7fffffffu
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

#define PACE_CHANGE_SHIFT 6 /* 2^-n; smaller changes of the pace are skipped */
#define CWND_CHANGE_SHIFT 3 /* 2^-n; smaller changes of the cwnd bound are skipped */
#define REREAD_CALLBACKS 16 /* callbacks after which an option is read in any case */
#define CWND_MIN 4        /* segments; two are acknowledged while two are in flight */
#define CWND_SLOW 3         /* segments of a slow flow; TCP sends half of them, one segment, as a super-packet */

/* An option that is read in some callbacks only. */
struct sampled_read {
	__u32 value; /* expected value at the last read; 0 before the first */
	__u32 since; /* callbacks since the last read */
};

/* Pacing state of a socket. */
struct paced {
	__u32 rate;     /* byte/s last set; 0 before the first time */
	__u32 own_rate; /* byte/s set by the application; UNLIMITED for none */
	__u32 cwnd;     /* segments of the last cwnd bound; 0 before the first time */
	struct sampled_read read;
};

/*
 * Reports whether to read a socket option: its expected value has changed by 1.6 %, or 16 callbacks
 * have passed, to see changes by the application. The read dominates the cost of a callback.
 */
static __always_inline __u32 needs_read(struct sampled_read *seen, __u64 value)
{
	__u32 before = seen->value, now = value < UNLIMITED ? value : UNLIMITED, shift = PACE_CHANGE_SHIFT;

	if (before && now - before + (before >> shift) <= before >> (shift - 1) && ++seen->since < REREAD_CALLBACKS)
		return 0;
	seen->value = now;
	seen->since = 0;
	return 1;
}

/* Paces the socket at the rate, or at the application's own rate if that is lower. */
static __always_inline void pace(struct bpf_sock_ops *ops, struct paced *paced, __u64 rate)
{
	__u32 current = UNLIMITED, shift = PACE_CHANGE_SHIFT;

	if (!needs_read(&paced->read, rate))
		return;
	if (bpf_getsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)))
		return;
	if (!paced->rate || current != paced->rate)
		paced->own_rate = current;
	if (rate > paced->own_rate)
		rate = paced->own_rate;
	if (current != UNLIMITED && rate < current + (current >> shift) && rate + (current >> shift) > current)
		return;
	__u32 value = rate;

	if (value != current && !bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)))
		paced->rate = value;
}

/*
 * Bounds the congestion window to two RTTs plus a mark threshold, ahead_ns, at the fair rate. TCP
 * sends up to half its cwnd as one super-packet, on short paths up to 64 KiB regardless of the
 * pace: 52 ms at 10 Mbit/s, above every threshold.
 *
 * The minimum cwnd allows for delayed acknowledgements. A flow with less than one segment per mark
 * threshold gets three segments, which TCP sends one by one: so many flows share such a scope that
 * coinciding pairs fill the queue.
 *
 * Setting the bound also sets the slow-start threshold, so it is set only where it binds: a cwnd
 * that another bottleneck keeps lower grows as without a bound. A cwnd of twice the bound (a socket
 * that was open before, or an undone reduction) gets the threshold when its next reduction ends.
 */
static __always_inline void bound_cwnd(struct bpf_sock_ops *ops, struct paced *paced, __u64 rate, __u64 rtt_us, __u64 ahead_ns)
{
	__u32 value = UNBOUND, bound = paced->cwnd ? paced->cwnd : UNBOUND;
	__u32 shift = CWND_CHANGE_SHIFT;
	__u64 mss = ops->mss_cache;

	if (rate < UNLIMITED && mss) {
		__u64 ahead_us = 2 * rtt_us + ahead_ns / 1000;
		__u64 segments = rate * ahead_us / 1000000 / mss;
		__u32 lower = rate * (ahead_ns / 1000) < (__u64)mss * 1000000 ? CWND_SLOW : CWND_MIN;

		value = segments < lower ? lower : segments < UNBOUND ? segments : UNBOUND;
	}
	if (value + (value >> shift) >= bound && value <= bound + (bound >> shift) && ops->snd_cwnd <= 2 * value)
		return;
	if (ops->snd_cwnd <= value && ops->snd_cwnd < bound)
		return;
	if (!bpf_setsockopt(ops, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &value, sizeof(value)))
		paced->cwnd = value;
	/*
	 * The initial window must respect the bound too. After the first data segment the kernel
	 * rejects TCP_BPF_IW.
	 */
	if (ops->op != BPF_SOCK_OPS_RTT_CB && ops->snd_cwnd > value)
		bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW, &value, sizeof(value));
}

/*
 * The iterator visits one network namespace at a time. The declarations replace those of the
 * kernel: the verifier knows the pointer types, and no field is read.
 */
struct bpf_iter__tcp {
	void *meta;
	void *sk_common;
	__u64 uid;
};

/* Returns the current TCP socket of an iterator; 0 for none. */
static __always_inline struct tcp_sock *iterator_socket(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;

	return common ? bpf_skc_to_tcp_sock(common) : 0;
}

/* Requests callbacks for a socket that was open before. */
static __always_inline void request_callbacks(struct tcp_sock *tcp, int more)
{
	int flags = 0;

	/* Kernels before 6.12 neither return nor accept the flags. */
	if (bpf_getsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return;
	flags |= more;
	bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

/* Restores the pacing rate of the application and removes the cwnd bound. */
static __always_inline void unpace(struct tcp_sock *tcp, struct paced *paced)
{
	__u32 current = 0, rate = paced->own_rate, cwnd = UNBOUND;

	/* A rate that the application has set since stays. */
	if (paced->rate && !bpf_getsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)) && current == paced->rate)
		bpf_setsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	if (paced->cwnd)
		bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &cwnd, sizeof(cwnd));
	*paced = (struct paced){};
}

#endif
