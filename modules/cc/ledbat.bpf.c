//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) as a TCP congestion control: bulk traffic that uses
 * spare capacity and keeps the queue short.
 *
 * The queueing delay is the min. of the last four RTT samples minus the base delay, which is the
 * min. of ten minutes (RFC 6817, section 4.2: history). All samples use the sender's clock, so
 * drift between clocks does not matter. A shorter route takes effect at once, a longer one within
 * ten minutes.
 *
 *     GAIN = 1 / min(16, ceil(2 * TARGET / base))
 *
 *     each round trip     W += GAIN                                          while delay <= TARGET
 *                         W += max(GAIN - W * (delay / TARGET - 1), -W / 2)  beyond it
 *     slow start          W += GAIN for each segment, until the delay is 3/4 of TARGET
 *     slowdown            W = 2 for two round trips, then slow start up to the former window. The
 *                         first slowdown starts two round trips after slow start, each other one
 *                         after nine times the duration of the last, so they cost at most a tenth.
 *                         The queue drains and all flows measure the base delay (no latecomer's
 *                         advantage).
 *     loss                W / 2, at most once per round trip
 *
 * Two options extend the draft, for links shared with production traffic and for lossy paths:
 *
 *     explore     Slow start after a slowdown continues above the former window, by GAIN / 4 for
 *                 each segment, until the delay is TARGET / 4. It claims spare capacity in a few
 *                 round trips, GAIN alone would need hundreds. If delay ends slow start, W becomes
 *                 the delivery rate times (base + TARGET / 2). For one round trip after that, or
 *                 after a loss, delay does not change W, because the delay belongs to segments sent
 *                 before. At the min. window with a delay above TARGET, the pacing rate falls to a
 *                 quarter: on a slow path, two segments per round trip are a share of their own.
 *     tolerant    A loss subtracts the queue, W = W * base / (base + delay), at least W / 2, if the
 *                 delay reached TARGET / 4 since the slowdown before last. Slow start continues
 *                 through losses of at most one segment of sixteen without delay. If the queue is
 *                 too short to measure, a loss halves W.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.h"
#include "ledbat.h"
#include "ledbat_state.h"
#include "paths.h"

char ledbat_license[] SEC("license") = "Dual BSD/GPL";

/* The draft's values by default; Go sets others. */
const volatile struct ledbat_tunables ledbat_tuned = {.target = 60000};

/* 1: report every step to ledbat_events. */
const volatile __u8 ledbat_tracing = 0;

/* One entry: the connections of this control that are held at the min. window. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ledbat_count);
} ledbat_sharing SEC(".maps");

#define MAX_TURNS 244141 /* ticks: 4 s */
#define PAIR_RATE 250 /* segments/s, so that the second follows in 4 ms */

/* Steps of all connections, with tracing. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ledbat_events SEC(".maps");

/* Steps dropped because ledbat_events was full. */
__u64 ledbat_lost = 0;

static __always_inline void trace(struct sock *sk, enum ledbat_event_kind kind, __u32 ssthresh, __u32 acked,
				__u32 limited)
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

	init_delays(&ca->delays, ticks());
	struct ledbat_path *path = path_of(sk, ticks());
	if (path)
		inherit_base(path, &ca->delays);
	ca->until = 0;
	ca->began = ticks();
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
	ca->member = (struct ledbat_member){};
	/* Unpaced bursts would build a queue. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	trace(sk, LEDBAT_EVENT_START, tp->snd_ssthresh, 0, 0);
}

SEC("struct_ops")
void BPF_PROG(ledbat_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct ledbat *ca = state_of(sk);
	__s32 rtt = sample->rtt_us;

	if (rtt <= 0 || !ca->phase) /* of the handshake, before the start */
		return;
	rotate_minutes(&ca->delays, ticks());
	add_delay(&ca->delays, rtt);
}

/* Adds parts of a segment (LEDBAT_ONE) to the window, within its bounds. */
static __always_inline void add_window(struct tcp_sock *tp, struct ledbat *ca, __s64 parts)
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

static __always_inline __u64 slow_start_increment(__u32 acked, __u32 base)
{
	return (__u64)acked * LEDBAT_ONE / gain_divisor(ledbat_tuned.target, base);
}

/* Returns the change of the window in congestion avoidance for some acknowledged segments. */
static __always_inline __s64 avoidance_increment(struct tcp_sock *tp, __u32 acked, __u32 base, __u32 delay,
				__u32 limited, __u32 active)
{
	__u32 target = ledbat_tuned.target;
	__s64 add = limited ? slow_start_increment(acked, base) / tp->snd_cwnd / active : 0;

	if (delay <= target)
		return add;
	__s64 half = (__s64)acked * LEDBAT_ONE / 2;
	__s64 take = (__u64)acked * (delay - target) * LEDBAT_ONE / target;
	return add - take < -half ? -half : add - take;
}

/* Returns the segments that the path delivers in base + TARGET/2, at most the window. */
static __always_inline __u32 path_window(struct tcp_sock *tp, __u32 base)
{
	__u64 rate = tp->rate_delivered, interval = tp->rate_interval_us;
	__u64 fits = interval ? rate * (base + ledbat_tuned.target / 2) / interval : tp->snd_cwnd;

	if (fits > tp->snd_cwnd)
		return tp->snd_cwnd;
	return fits < LEDBAT_MIN_WINDOW ? LEDBAT_MIN_WINDOW : fits;
}

/* Ignores the delays of segments in flight, which belong to the present window. */
static __always_inline void ignore_old_delays(struct tcp_sock *tp, struct ledbat *ca)
{
	ca->hold = tp->delivered + (ledbat_tuned.explore ? tp->packets_out : 0);
}

/*
 * Returns the ticks until the next slowdown: nine times the duration of the last. Connections held
 * at the min. window take turns, so that one of them measures the path at a time.
 */
static __always_inline __u32 rest_after(struct tcp_sock *tp, struct ledbat *ca, __u32 now)
{
	__u32 zero = 0, rest = 9 * (now - ca->began), turns = rest;
	struct ledbat_count *sharing = bpf_map_lookup_elem(&ledbat_sharing, &zero);

	if (ledbat_tuned.explore && sharing && tp->snd_cwnd <= LEDBAT_MIN_WINDOW)
		turns *= members(sharing, now);
	if (turns > MAX_TURNS)
		turns = MAX_TURNS;
	return turns > rest ? turns : rest;
}

/* Ends slow start. next is the tick of the next slowdown. */
static __always_inline void enter_avoidance(struct tcp_sock *tp, struct ledbat *ca, __u32 next, __u32 base)
{
	ca->phase = LEDBAT_AVOID;
	ca->until = next;
	ignore_old_delays(tp, ca);
	if (ledbat_tuned.explore && base != UNKNOWN) {
		tp->snd_cwnd = path_window(tp, base);
		ca->part = 0;
	}
	tp->snd_ssthresh = tp->snd_cwnd;
}

/* Drains this connection's segments from the queue, so that all flows measure the base delay. */
static __always_inline void enter_slowdown(struct tcp_sock *tp, struct ledbat *ca, __u32 now)
{
	ca->phase = LEDBAT_DRAIN;
	ca->began = now;
	ca->until = now + us_to_ticks(tp->srtt_us >> 2); /* two round trips, of eighths */
	ca->saved = tp->snd_cwnd;
	ca->before = ca->seen;
	ca->seen = 0;
	ca->part = 0;
	tp->snd_ssthresh = ca->saved;
	tp->snd_cwnd = LEDBAT_MIN_WINDOW;
}

static __always_inline void slow_start(struct tcp_sock *tp, struct ledbat *ca, __u32 now, __u32 acked,
				__u32 base, __u32 delay, __u32 limited)
{
	__u32 target = ledbat_tuned.target;
	int enough = tp->snd_cwnd >= ca->saved && (!ledbat_tuned.explore || delay >= target / 4);

	if (enough || delay > target - target / 4)
		enter_avoidance(tp, ca, now + rest_after(tp, ca, now), base);
	else if (limited)
		add_window(tp, ca, slow_start_increment(acked, base) >> (tp->snd_cwnd >= ca->saved ? LEDBAT_EXPLORE_SHIFT : 0));
	/* Keep the kernel in slow start. */
	if (ca->phase == LEDBAT_CLIMB && tp->snd_ssthresh <= tp->snd_cwnd)
		tp->snd_ssthresh = tp->snd_cwnd + 1;
}

static __always_inline void update(struct tcp_sock *tp, struct ledbat *ca, struct ledbat_path *path, __u32 acked,
				__u32 limited)
{
	__u32 now = ticks(), base = base_of(&ca->delays), target = ledbat_tuned.target;
	__u32 delay = delay_of(&ca->delays, base);

	if (delay >= target / 4)
		ca->seen = 1;
	switch (ca->phase) {
	case LEDBAT_START:
		if (delay > target - target / 4)
			enter_avoidance(tp, ca, now + us_to_ticks(tp->srtt_us >> 2), base);
		else if (limited)
			add_window(tp, ca, slow_start_increment(acked, base));
		break;
	case LEDBAT_DRAIN:
		if ((__s32)(now - ca->until) >= 0)
			ca->phase = LEDBAT_CLIMB;
		break;
	case LEDBAT_CLIMB:
		slow_start(tp, ca, now, acked, base, delay, limited);
		break;
	default:
		if ((__s32)(now - ca->until) >= 0 ||
		    (tp->snd_cwnd > LEDBAT_MIN_WINDOW && is_path_slowing(path, ca->began, now, tp->srtt_us >> 3))) {
			if (tp->snd_cwnd > LEDBAT_MIN_WINDOW)
				slow_path(path, now, tp->srtt_us >> 3);
			enter_slowdown(tp, ca, now);
			break;
		}
		if ((__s32)(tp->delivered - ca->hold) < 0)
			break;
		add_window(tp, ca, avoidance_increment(tp, acked, base, delay, limited, members(&path->active, now)));
		tp->snd_ssthresh = tp->snd_cwnd;
	}
}

/* Reports whether the window limited the sender, like the kernel's tcp_is_cwnd_limited. */
static __always_inline __u32 is_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Reports whether the delay exceeds TARGET although the window is minimal. */
static __always_inline int is_held_at_minimum(struct tcp_sock *tp, struct ledbat *ca)
{
	return ledbat_tuned.explore && ca->phase == LEDBAT_AVOID && tp->snd_cwnd <= LEDBAT_MIN_WINDOW &&
	       delay_of(&ca->delays, base_of(&ca->delays)) > ledbat_tuned.target;
}

/*
 * Returns the pacing rate of a connection held at the min. window: 30 % of that window per RTT, for
 * n > 2 of them 60 % divided by n, and at least that window in 2 s.
 */
static __always_inline __u64 shared_rate(struct tcp_sock *tp, __u32 rtt, __u32 n)
{
	__u64 window = (__u64)tp->mss_cache * LEDBAT_MIN_WINDOW, rate = window * 8 * (1000000 / 100) * (n > 2 ? 60 : 30) / rtt;

	if (n > 2)
		rate /= n;
	return rate < window / 2 ? window / 2 : rate;
}

/*
 * Paces at 120 % of a window per RTT, in slow start 200 %, like the kernel; less at the min.
 * window. The min. window goes out as a pair: a single segment would wait for the receiver's
 * delayed acknowledgment, and its RTT sample with it.
 */
static __always_inline void set_pacing_rate(struct sock *sk, struct tcp_sock *tp, struct ledbat *ca)
{
	__u32 rtt = tp->srtt_us, zero = 0, percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	__u64 rate = (__u64)tp->mss_cache * tp->snd_cwnd * 8 * (1000000 / 100) * percent;
	struct ledbat_count *sharing = bpf_map_lookup_elem(&ledbat_sharing, &zero);

	if (!rtt || !sharing)
		return;
	rate /= rtt;
	if (ledbat_tuned.explore && tp->snd_cwnd <= LEDBAT_MIN_WINDOW && rate < tp->mss_cache * PAIR_RATE)
		rate = tp->mss_cache * PAIR_RATE;
	if (is_held_at_minimum(tp, ca)) {
		__u32 now = ticks();

		count_member(sharing, &ca->member.sharing, now);
		rate = shared_rate(tp, rtt, members(sharing, now));
	}
	sk->sk_pacing_rate = rate;
}

/* Before an update: adds the connection's last delay to its path, and takes the path's delays. */
static __always_inline void share_path(struct tcp_sock *tp, struct ledbat *ca, struct ledbat_path *path)
{
	__u32 now = ticks(), last = ca->delays.recent[0];

	count_member(&path->active, &ca->member.active, now);
	share_delay(path, &ca->delays, last == UNKNOWN ? 0 : last, now);
	if (tp->snd_cwnd <= LEDBAT_MIN_WINDOW && ca->phase == LEDBAT_AVOID)
		take_delays(path, &ca->delays);
}

SEC("struct_ops")
void BPF_PROG(ledbat_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct ledbat *ca = state_of(sk);
	__u32 acked = tp->delivered - ca->delivered, limited = is_limited(tp);

	if (!ca->phase) /* acknowledgment of the handshake, before the start */
		return;
	ca->delivered = tp->delivered;
	struct ledbat_path *path = acked ? path_of(sk, ticks()) : 0;
	if (path) {
		share_path(tp, ca, path);
		update(tp, ca, path, acked, limited);
	}
	if ((__s32)(tp->delivered - ca->round) >= 0) {
		ca->round = tp->delivered + tp->snd_cwnd;
		ca->lost = tp->lost;
	}
	set_pacing_rate(sk, tp, ca);
	trace(sk, LEDBAT_EVENT_ACK, tp->snd_ssthresh, acked, limited);
}

/* Returns the window after a loss. */
static __always_inline __u32 window_after_loss(struct tcp_sock *tp, struct ledbat *ca)
{
	__u32 cwnd = tp->snd_cwnd, base = base_of(&ca->delays), target = ledbat_tuned.target;
	__u32 delay = delay_of(&ca->delays, base), half = cwnd / 2, lost = tp->lost - ca->lost;

	if (!ledbat_tuned.tolerant || base == UNKNOWN || !lost) /* an ECN mark */
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
	__u32 cwnd = tp->snd_cwnd, left = window_after_loss(tp, ca), now = ticks();

	ca->prior_cwnd = cwnd;
	if (left == cwnd)
		return tp->snd_ssthresh > cwnd ? tp->snd_ssthresh : cwnd;
	if (left < LEDBAT_MIN_WINDOW)
		left = LEDBAT_MIN_WINDOW;
	/* A running slowdown continues; its slow start ends lower. */
	if (ca->phase == LEDBAT_DRAIN) {
		ca->saved = ca->saved / 2 > LEDBAT_MIN_WINDOW ? ca->saved / 2 : LEDBAT_MIN_WINDOW;
	} else {
		if (ca->phase == LEDBAT_START)
			ca->until = now + us_to_ticks(tp->srtt_us >> 2);
		else if (ca->phase == LEDBAT_CLIMB)
			ca->until = now + rest_after(tp, ca, now);
		ca->phase = LEDBAT_AVOID;
		tp->snd_cwnd = left;
		ca->part = 0;
		ignore_old_delays(tp, ca);
	}
	trace(sk, LEDBAT_EVENT_REDUCE, left, 0, 0);
	return left;
}

/* After a timeout, with a window of one segment: slow start up to the threshold. */
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

/* Undoes a spurious reduction; a slowdown that began meanwhile continues. */
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
	.name = "weir_ledbat", /* Go may replace the name, and sets the flags, at load time */
};

const struct ledbat_event *ledbat_unused_event __attribute__((unused)); /* keeps the type for Go */
