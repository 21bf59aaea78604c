/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A rate for a TCP socket of this host: explicit-rate pacing, a congestion window that fits it, and
 * the way back. Both data planes of limits use it; fair.h and delay/flow.h say where rates
 * are from.
 */
#ifndef WEIR_LIMIT_PACE_H
#define WEIR_LIMIT_PACE_H

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define UNLIMITED 0xffffffffu
#define SOL_TCP 6
#define UNBOUND 0x7fffffffu
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

#define PACE_CHANGE_SHIFT 6 /* 2^-n; a smaller change of the pace is not worth a system call's work */
#define CWND_CHANGE_SHIFT 3 /* 2^-n; a smaller change of the congestion window's bound is not made */
#define REREAD_CALLBACKS 16 /* after which a socket's option is read whatever it should be */
#define CWND_LEAST 4        /* segments; two are acknowledged at once while two are on their way */
#define CWND_SLOW 3         /* segments, of a slow flow; half of it, which TCP sends as one super-packet, is one */

/* A socket's option is read once in some callbacks. */
struct sampled_read {
	__u32 value; /* what it should have been when it was last read; 0 before the first time */
	__u32 since; /* callbacks since then */
};

/* What was set of a socket. */
struct paced {
	__u32 rate;     /* octet/s last set; 0 before the first time */
	__u32 own_rate; /* octet/s the application has set itself; UNLIMITED where it has not */
	__u32 cwnd;     /* segments that its congestion window was last bounded to; 0 before the first time */
	struct sampled_read read;
};

/*
 * Whether a socket's option is worth reading: what it should be has changed by 1.6 %, or it is
 * every 16th callback, so that what the application sets meanwhile is seen. Reading takes longer
 * than all else in a callback.
 */
static __always_inline __u32 worth_reading(struct sampled_read *seen, __u64 value)
{
	__u32 before = seen->value, now = value < UNLIMITED ? value : UNLIMITED, shift = PACE_CHANGE_SHIFT;

	if (before && now - before + (before >> shift) <= before >> (shift - 1) && ++seen->since < REREAD_CALLBACKS)
		return 0;
	seen->value = now;
	seen->since = 0;
	return 1;
}

/* Paces the socket at the fair rate, or at the application's own rate where that is lower. */
static __always_inline void pace(struct bpf_sock_ops *ops, struct paced *paced, __u64 rate)
{
	__u32 current = UNLIMITED, shift = PACE_CHANGE_SHIFT;

	if (!worth_reading(&paced->read, rate))
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
 * Bounds the congestion window to two round trips and a mark threshold, ahead_ns, at the fair rate.
 * Pacing keeps the rate without it, but TCP sends up to half its cwnd as one super-packet, and on
 * short paths up to 64 KiB whatever the pace: 52 ms at 10 Mbit/s, beyond every threshold.
 *
 * The least cwnd is for delayed acknowledgements. A flow that may send less than a segment in a
 * mark threshold has one of three segments, which it sends one by one: there are so many such flows
 * that pairs, should they meet, fill the queue.
 *
 * Setting the bound also sets the slow-start threshold, so it is touched only where it binds: a
 * cwnd that another bottleneck keeps below the bound grows as if there were none. A cwnd that is
 * twice the bound all the same, of a socket that was open before or whose reduction was undone,
 * takes the threshold when its next reduction ends.
 */
static __always_inline void bound_cwnd(struct bpf_sock_ops *ops, struct paced *paced, __u64 rate, __u64 rtt_us, __u64 ahead_ns)
{
	__u32 value = UNBOUND, bound = paced->cwnd ? paced->cwnd : UNBOUND;
	__u32 shift = CWND_CHANGE_SHIFT;
	__u64 mss = ops->mss_cache;

	if (rate < UNLIMITED && mss) {
		__u64 ahead_us = 2 * rtt_us + ahead_ns / 1000;
		__u64 segments = rate * ahead_us / 1000000 / mss;
		__u32 least = rate * (ahead_ns / 1000) < (__u64)mss * 1000000 ? CWND_SLOW : CWND_LEAST;

		value = segments < least ? least : segments < UNBOUND ? segments : UNBOUND;
	}
	if (value + (value >> shift) >= bound && value <= bound + (bound >> shift) && ops->snd_cwnd <= 2 * value)
		return;
	if (ops->snd_cwnd <= value && ops->snd_cwnd < bound)
		return;
	if (!bpf_setsockopt(ops, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &value, sizeof(value)))
		paced->cwnd = value;
	/*
	 * Where no data was sent yet, the initial window keeps the bound too; elsewhere the kernel
	 * rejects this.
	 */
	if (ops->op != BPF_SOCK_OPS_RTT_CB && ops->snd_cwnd > value)
		bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW, &value, sizeof(value));
}

/*
 * The iterator goes through one network namespace at a time. The declarations stand in for the
 * kernel's: the verifier knows the types of these pointers, and no field behind them is read.
 */
struct bpf_iter__tcp {
	void *meta;
	void *sk_common;
	__u64 uid;
};

/* The TCP socket that an iterator has come to; 0 where it is none. */
static __always_inline struct tcp_sock *visited(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;

	return common ? bpf_skc_to_tcp_sock(common) : 0;
}

/* Asks for callbacks of a socket that was open before. */
static __always_inline void ask_callbacks(struct tcp_sock *tcp, int more)
{
	int flags = 0;

	/* Kernels before 6.12 do not report the flags, nor take them. */
	if (bpf_getsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return;
	flags |= more;
	bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

/*
 * Gives a socket back the pacing rate that its application had set, and a congestion window without
 * a bound.
 */
static __always_inline void unpace(struct tcp_sock *tcp, struct paced *paced)
{
	__u32 current = 0, rate = paced->own_rate, cwnd = UNBOUND;

	/* What the application has set since is its own. */
	if (paced->rate && !bpf_getsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)) && current == paced->rate)
		bpf_setsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	if (paced->cwnd)
		bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &cwnd, sizeof(cwnd));
	*paced = (struct paced){};
}

#endif
