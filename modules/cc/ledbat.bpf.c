//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) as a TCP congestion control: bulk traffic that takes
 * what is left and keeps the queue short.
 *
 * The queueing delay is the least of the last four round-trip times beyond the base delay, which is
 * the least of ten minutes (RFC 6817, section 4.2: history). Both come from the sender's clock, so
 * clocks that drift do not matter; a shorter route counts at once, a longer one within ten minutes.
 *
 *     GAIN = 1 / min(16, ceil(2 * TARGET / base))
 *
 *     each round trip     W += GAIN                                          while delay <= TARGET
 *                         W += max(GAIN - W * (delay / TARGET - 1), -W / 2)  beyond it
 *     slow start          W += GAIN for each segment, until the delay is 3/4 of TARGET
 *     slowdown            W = 2 for two round trips, then slow start up to what it was. The first
 *                         comes two round trips after slow start, each other after nine times as
 *                         long as the one before took, so that they cost a tenth at most: in them
 *                         the queue drains and everyone sees the base delay (no latecomer's
 *                         advantage).
 *     loss                W / 2, once in a round trip
 *
 * Two things can be switched on that the draft has not, for links shared with others' production
 * traffic and for lossy paths:
 *
 *     explore     The climb after a slowdown goes on past the window of before, by a quarter of GAIN
 *                 for each segment, until the delay is a quarter of TARGET: what others have left
 *                 is taken in some round trips, where GAIN would take hundreds. A slow start that
 *                 ends by delay leaves what the path delivers in a base delay and half of TARGET.
 *                 For a round trip after that, or after a loss, delay does not move the window: it
 *                 is that of segments sent before. At the least window, with more delay than
 *                 TARGET, it sends a quarter as fast: two segments a round trip are a share of
 *                 their own where the path is slow.
 *     tolerant    Loss takes from the window what waits in the queue, W * base / (base + delay) and
 *                 half of it at least, if this path has shown a queue of a quarter of TARGET since
 *                 the slowdown before last; a climb that sees neither delay nor more than one
 *                 segment of sixteen lost goes on. A queue too short to show delays is halved for.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.h"
#include "ledbat.h"
#include "ledbat_state.h"

char ledbat_license[] SEC("license") = "Dual BSD/GPL";

/* The draft's, unless Go sets others. */
const volatile struct ledbat_tunables ledbat_tuned = {.target = 60000};

/* Report every step to ledbat_events. */
const volatile __u8 ledbat_tracing = 0;

/* Steps of all connections, where tracing is on. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ledbat_events SEC(".maps");

/* Steps that found no room in ledbat_events. */
__u64 ledbat_lost = 0;

static __always_inline void trace(struct sock *sk, enum ledbat_event_kind kind, __u32 ssthresh, __u32 acked, __u32 limited)
{
	if (!ledbat_tracing)
		return;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ledbat *ca = state_of(sk);
	__u32 base = base_of(&ca->delays);
	struct ledbat_event event = {
		.time = bpf_ktime_get_ns(), .kind = kind, .phase = ca->phase, .base = base, .delay = delay_of(&ca->delays, base),
		.srtt = tp->srtt_us >> 3, .acked = acked, .lost = tp->lost - ca->lost, .limited = limited, .cwnd = tp->snd_cwnd,
		.part = ca->part, .ssthresh = ssthresh, .rate_delivered = tp->rate_delivered, .rate_interval = tp->rate_interval_us,
		.flight = tp->packets_out,
		.local_port = sk->__sk_common.skc_num, .peer_port = __builtin_bswap16(sk->__sk_common.skc_dport),
	};
	if (bpf_ringbuf_output(&ledbat_events, &event, sizeof(event), 0))
		__sync_fetch_and_add(&ledbat_lost, 1);
}

SEC("struct_ops")
void BPF_PROG(ledbat_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ledbat *ca = state_of(sk);

	begin_delays(&ca->delays, ticks());
	ca->until = 0;
	ca->began = 0;
	ca->saved = 0;
	ca->part = 0;
	ca->delivered = tp->delivered;
	ca->round = tp->delivered;
	ca->lost = tp->lost;
	ca->prior_cwnd = tp->snd_cwnd;
	ca->hold = tp->delivered;
	ca->phase = LEDBAT_START;
	ca->seen = 0;
	ca->before = 0;
	/* Bursts would be queues of its own making. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	trace(sk, LEDBAT_EVENT_START, tp->snd_ssthresh, 0, 0);
}

SEC("struct_ops")
void BPF_PROG(ledbat_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct ledbat *ca = state_of(sk);
	__s32 rtt = sample->rtt_us;

	if (rtt <= 0)
		return;
	next_minute(&ca->delays, ticks());
	add_delay(&ca->delays, rtt);
}

/* Moves the window by parts of a segment. */
static __always_inline void move(struct tcp_sock *tp, struct ledbat *ca, __s64 parts)
{
	__s64 window = (__s64)tp->snd_cwnd * LEDBAT_ONE + ca->part + parts;
	__s64 least = (__s64)LEDBAT_MIN_WINDOW * LEDBAT_ONE, most = (__s64)tp->snd_cwnd_clamp * LEDBAT_ONE;

	if (window > most)
		window = most;
	if (window < least)
		window = least;
	tp->snd_cwnd = window >> 16;
	ca->part = window & (LEDBAT_ONE - 1);
}

static __always_inline __u64 growth(__u32 acked, __u32 base)
{
	return (__u64)acked * LEDBAT_ONE / divisor_of(ledbat_tuned.target, base);
}

/* What congestion avoidance adds for some of a window's segments. */
static __always_inline __s64 correction(struct tcp_sock *tp, __u32 acked, __u32 base, __u32 delay, __u32 limited)
{
	__u32 target = ledbat_tuned.target;
	__s64 add = limited ? growth(acked, base) / tp->snd_cwnd : 0;

	if (delay <= target)
		return add;
	__s64 half = (__s64)acked * LEDBAT_ONE / 2;
	__s64 take = (__u64)acked * (delay - target) * LEDBAT_ONE / target;
	return add - take < -half ? -half : add - take;
}

/* What the path delivers in a base delay and half of the target, and no more than the window. */
static __always_inline __u32 fitting(struct tcp_sock *tp, __u32 base)
{
	__u64 rate = tp->rate_delivered, interval = tp->rate_interval_us;
	__u64 fits = interval ? rate * (base + ledbat_tuned.target / 2) / interval : tp->snd_cwnd;

	if (fits > tp->snd_cwnd)
		return tp->snd_cwnd;
	return fits < LEDBAT_MIN_WINDOW ? LEDBAT_MIN_WINDOW : fits;
}

/* The delays of what is in flight are those of the window until now. */
static __always_inline void hold(struct tcp_sock *tp, struct ledbat *ca)
{
	ca->hold = tp->delivered + (ledbat_tuned.explore ? tp->packets_out : 0);
}

/* Ends slow start; the next slowdown is at a tick. */
static __always_inline void avoid(struct tcp_sock *tp, struct ledbat *ca, __u32 next, __u32 base)
{
	ca->phase = LEDBAT_AVOID;
	ca->until = next;
	hold(tp, ca);
	if (ledbat_tuned.explore && base != UNKNOWN) {
		tp->snd_cwnd = fitting(tp, base);
		ca->part = 0;
	}
	tp->snd_ssthresh = tp->snd_cwnd;
}

/* Empties the queue of this connection's segments, so that all see the base delay. */
static __always_inline void slow_down(struct tcp_sock *tp, struct ledbat *ca, __u32 now)
{
	ca->phase = LEDBAT_DRAIN;
	ca->began = now;
	ca->until = now + ticks_of(tp->srtt_us >> 2); /* two round trips, of eighths */
	ca->saved = tp->snd_cwnd;
	ca->before = ca->seen;
	ca->seen = 0;
	ca->part = 0;
	tp->snd_ssthresh = ca->saved;
	tp->snd_cwnd = LEDBAT_MIN_WINDOW;
}

static __always_inline void climb(struct tcp_sock *tp, struct ledbat *ca, __u32 now, __u32 acked, __u32 base, __u32 delay, __u32 limited)
{
	__u32 target = ledbat_tuned.target;
	int enough = tp->snd_cwnd >= ca->saved && (!ledbat_tuned.explore || delay >= target / 4);

	if (enough || delay > target - target / 4)
		avoid(tp, ca, now + 9 * (now - ca->began), base);
	else if (limited)
		move(tp, ca, growth(acked, base) >> (tp->snd_cwnd >= ca->saved ? LEDBAT_EXPLORE_SHIFT : 0));
	/* As long as it climbs the kernel is to know that it does. */
	if (ca->phase == LEDBAT_CLIMB && tp->snd_ssthresh <= tp->snd_cwnd)
		tp->snd_ssthresh = tp->snd_cwnd + 1;
}

static __always_inline void step(struct tcp_sock *tp, struct ledbat *ca, __u32 acked, __u32 limited)
{
	__u32 now = ticks(), base = base_of(&ca->delays), target = ledbat_tuned.target;
	__u32 delay = delay_of(&ca->delays, base);

	if (delay >= target / 4)
		ca->seen = 1;
	switch (ca->phase) {
	case LEDBAT_START:
		if (delay > target - target / 4)
			avoid(tp, ca, now + ticks_of(tp->srtt_us >> 2), base);
		else if (limited)
			move(tp, ca, growth(acked, base));
		break;
	case LEDBAT_DRAIN:
		if ((__s32)(now - ca->until) >= 0)
			ca->phase = LEDBAT_CLIMB;
		break;
	case LEDBAT_CLIMB:
		climb(tp, ca, now, acked, base, delay, limited);
		break;
	default:
		if ((__s32)(now - ca->until) >= 0) {
			slow_down(tp, ca, now);
			break;
		}
		if ((__s32)(tp->delivered - ca->hold) < 0)
			break;
		move(tp, ca, correction(tp, acked, base, delay, limited));
		tp->snd_ssthresh = tp->snd_cwnd;
	}
}

/* Whether the window kept the sender from sending: as the kernel's tcp_is_cwnd_limited. */
static __always_inline __u32 is_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Whether others fill the queue although the window is the least that there is. */
static __always_inline int crowded_out(struct tcp_sock *tp, struct ledbat *ca)
{
	return ledbat_tuned.explore && ca->phase == LEDBAT_AVOID && tp->snd_cwnd <= LEDBAT_MIN_WINDOW &&
	       delay_of(&ca->delays, base_of(&ca->delays)) > ledbat_tuned.target;
}

/* Paces at a window a round trip and a fifth more, in slow start at twice that, as TCP does. */
static __always_inline void pace(struct sock *sk, struct tcp_sock *tp, struct ledbat *ca)
{
	__u32 rtt = tp->srtt_us, percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : crowded_out(tp, ca) ? 30 : 120;
	__u64 rate = (__u64)tp->mss_cache * tp->snd_cwnd * 8 * (1000000 / 100) * percent;

	if (rtt)
		sk->sk_pacing_rate = rate / rtt;
}

SEC("struct_ops")
void BPF_PROG(ledbat_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ledbat *ca = state_of(sk);
	__u32 acked = tp->delivered - ca->delivered, limited = is_limited(tp);

	if (!ca->phase) /* the handshake's acknowledgment comes before the start */
		return;
	ca->delivered = tp->delivered;
	if (acked)
		step(tp, ca, acked, limited);
	if ((__s32)(tp->delivered - ca->round) >= 0) {
		ca->round = tp->delivered + tp->snd_cwnd;
		ca->lost = tp->lost;
	}
	pace(sk, tp, ca);
	trace(sk, LEDBAT_EVENT_ACK, tp->snd_ssthresh, acked, limited);
}

/* What loss leaves of the window. */
static __always_inline __u32 after_loss(struct tcp_sock *tp, struct ledbat *ca)
{
	__u32 cwnd = tp->snd_cwnd, base = base_of(&ca->delays), target = ledbat_tuned.target;
	__u32 delay = delay_of(&ca->delays, base), half = cwnd / 2, lost = tp->lost - ca->lost;

	if (!ledbat_tuned.tolerant || base == UNKNOWN || !lost) /* without loss it is a mark */
		return half;
	int rising = ca->phase == LEDBAT_START || ca->phase == LEDBAT_CLIMB;
	if (rising && delay < target / 4 && lost <= 1 + cwnd / 16)
		return cwnd;
	if (!ca->seen && !ca->before)
		return half;
	__u32 rest = (__u64)cwnd * base / ((__u64)base + delay);
	return rest < half ? half : rest;
}

SEC("struct_ops")
__u32 BPF_PROG(ledbat_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ledbat *ca = state_of(sk);
	__u32 cwnd = tp->snd_cwnd, left = after_loss(tp, ca), now = ticks();

	ca->prior_cwnd = cwnd;
	if (left == cwnd)
		return tp->snd_ssthresh > cwnd ? tp->snd_ssthresh : cwnd;
	if (left < LEDBAT_MIN_WINDOW)
		left = LEDBAT_MIN_WINDOW;
	/* A slowdown that is going on is not cut short; its climb ends lower. */
	if (ca->phase == LEDBAT_DRAIN) {
		ca->saved = ca->saved / 2 > LEDBAT_MIN_WINDOW ? ca->saved / 2 : LEDBAT_MIN_WINDOW;
	} else {
		if (ca->phase == LEDBAT_START)
			ca->until = now + ticks_of(tp->srtt_us >> 2);
		else if (ca->phase == LEDBAT_CLIMB)
			ca->until = now + 9 * (now - ca->began);
		ca->phase = LEDBAT_AVOID;
		tp->snd_cwnd = left;
		ca->part = 0;
		hold(tp, ca);
	}
	trace(sk, LEDBAT_EVENT_REDUCE, left, 0, 0);
	return left;
}

/* A timeout leaves one segment: it climbs back to the threshold. */
SEC("struct_ops")
void BPF_PROG(ledbat_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ledbat *ca = state_of(sk);

	if (new_state != TCP_CA_Loss)
		return;
	ca->phase = LEDBAT_CLIMB;
	ca->began = ticks();
	ca->saved = tp->snd_ssthresh;
	ca->part = 0;
}

/* A reduction that proves unfounded is taken back; a slowdown that has begun since goes on. */
SEC("struct_ops")
__u32 BPF_PROG(ledbat_undo_cwnd, struct sock *sk)
{
	struct ledbat *ca = state_of(sk);
	__u32 cwnd = ((struct tcp_sock *)sk)->snd_cwnd, window = cwnd;

	if (ca->phase == LEDBAT_DRAIN) {
		if (ca->saved < ca->prior_cwnd)
			ca->saved = ca->prior_cwnd;
	} else if (window < ca->prior_cwnd) {
		window = ca->prior_cwnd;
	}
	trace(sk, LEDBAT_EVENT_UNDO, window, 0, 0);
	return window;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops weir_ledbat = {
	.init = (void *)ledbat_init,
	.pkts_acked = (void *)ledbat_pkts_acked,
	.cong_control = (void *)ledbat_cong_control,
	.ssthresh = (void *)ledbat_ssthresh,
	.set_state = (void *)ledbat_set_state,
	.undo_cwnd = (void *)ledbat_undo_cwnd,
	.name = "weir_ledbat", /* unless another is set when it is loaded, as the flags are */
};

const struct ledbat_event *ledbat_unused_event __attribute__((unused)); /* keeps the type for Go */
