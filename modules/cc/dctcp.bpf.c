//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DCTCP (RFC 8257) as a TCP congestion control.
 *
 * Sender (3.3): alpha estimates the fraction of marked bytes. Once per window of data
 *
 *     M = marked / acked        alpha = alpha * (1 - 1/16) + M / 16
 *
 * with alpha scaled by 65536 and bounded as in 4.2. The kernel reduces the window at most once per
 * window of data because of ECN; the new window is cwnd * (1 - alpha / 2). A loss halves the window
 * from before the reduction, like Reno (3.5): it extends an ECN reduction in progress. Growth is
 * Reno's (3.4).
 *
 * Receiver (3.2): ECE repeats the CE state of the last data packet instead of lasting until CWR.
 * When the state changes
 *
 *     ... data, acknowledged | data, not yet | the packet that changes the state
 *                            | first: an     | then: an acknowledgment at once,
 *                            | acknowledgment| with the new state
 *                            | of the old    |
 *
 * so that every byte is acknowledged with the state of its arrival. The timer of delayed
 * acknowledgments alone does not show unacknowledged data: since Linux 6.7 acknowledgments also
 * wait, without a timer, while the socket's backlog is processed (net.ipv4.tcp_backlog_ack_defer).
 *
 * If the peer does not support ECN, the connection uses Reno.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cc.h"
#include "kernel.h"

char dctcp_license[] SEC("license") = "Dual BSD/GPL";

#define IPPROTO_TCP 6
#define TCP_CONGESTION 13
#define MIN_WINDOW 2 /* segments */

/* 1: report every step to dctcp_events. */
const volatile __u8 dctcp_tracing = 0;

/* Steps of all connections, with tracing. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} dctcp_events SEC(".maps");

/* Steps dropped because dctcp_events was full. */
__u64 dctcp_lost = 0;

/* The state of one connection, in its 104 bytes of private memory. */
struct dctcp {
	__u64 seen;         /* tcp_sock.bytes_acked at the last acknowledgment */
	__u64 bytes_acked;  /* bytes in the current observation window */
	__u64 bytes_marked; /* bytes acknowledged with ECE in it */
	__u32 window_end;   /* sequence number */
	__u32 alpha;        /* in units of CC_ALPHA_ONE */
	__u32 prior_cwnd;   /* segments: the window before the last reduction */
	__u32 rcv_nxt;      /* sequence number: RCV.NXT after the last data packet */
	__u16 ce;           /* DCTCP.CE: 1 if the last data packet had CE */
	__u16 early;        /* 1 if it changed the state after an acknowledgment of the earlier data */
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct dctcp *state_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline void trace(struct sock *sk, enum cc_event_kind kind, __u32 ssthresh, __u32 acked, __u32 echo)
{
	if (!dctcp_tracing)
		return;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	struct cc_event event = {
		.time = bpf_ktime_get_ns(), .kind = kind, .una = tp->snd_una, .nxt = tp->snd_nxt, .window_end = ca->window_end,
		.alpha = ca->alpha, .cwnd = tp->snd_cwnd, .ssthresh = ssthresh, .acked = acked, .echo = echo,
		.local_port = sk->__sk_common.skc_num, .peer_port = __builtin_bswap16(sk->__sk_common.skc_dport),
	};
	if (bpf_ringbuf_output(&dctcp_events, &event, sizeof(event), 0))
		__sync_fetch_and_add(&dctcp_lost, 1);
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u8 state = sk->__sk_common.skc_state;

	if (!(tp->ecn_flags & ECN_NEGOTIATED) && state != TCP_LISTEN && state != TCP_CLOSE) {
		char reno[] = "reno";
		bpf_setsockopt(sk, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return;
	}
	ca->seen = tp->bytes_acked;
	ca->bytes_acked = 0;
	ca->bytes_marked = 0;
	ca->window_end = tp->snd_una;
	ca->alpha = CC_ALPHA_ONE;
	ca->prior_cwnd = tp->snd_cwnd;
	ca->rcv_nxt = tp->rcv_nxt;
	ca->ce = 0;
	ca->early = 0;
	trace(sk, CC_EVENT_START, tp->snd_ssthresh, 0, 0);
}

/* RFC 8257, section 4.2. */
static __always_inline __u32 estimate_alpha(__u32 alpha, __u64 marked, __u64 acked)
{
	__u32 congestion = acked ? CC_ALPHA_ONE * marked / acked : 0;

	if (!(alpha >> CC_GAIN_SHIFT))
		alpha = 0;
	alpha += (congestion >> CC_GAIN_SHIFT) - (alpha >> CC_GAIN_SHIFT);
	return alpha > CC_ALPHA_ONE ? CC_ALPHA_ONE : alpha;
}

/* RFC 8257, section 3.3. The kernel has moved SND.UNA already; bytes_acked counts by how much. */
SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u64 total = tp->bytes_acked, acked = total - ca->seen;
	__u32 echo = !!(flags & bpf_core_enum_value(enum tcp_ca_ack_event_flags, CA_ACK_ECE));

	ca->seen = total;
	ca->bytes_acked += acked;
	if (echo)
		ca->bytes_marked += acked;
	if ((__s32)(tp->snd_una - ca->window_end) > 0) {
		ca->alpha = estimate_alpha(ca->alpha, ca->bytes_marked, ca->bytes_acked);
		ca->window_end = tp->snd_nxt;
		ca->bytes_acked = 0;
		ca->bytes_marked = 0;
	}
	trace(sk, CC_EVENT_ACK, tp->snd_ssthresh, acked, echo);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u32 cwnd = tp->snd_cwnd;
	/* Rounded to the nearest segment: rounding down would never reduce small windows. */
	__u32 reduction = ((__u64)cwnd * ca->alpha + CC_ALPHA_ONE) / (2 * CC_ALPHA_ONE);
	__u32 ssthresh = cwnd - reduction;

	if (ssthresh < MIN_WINDOW || ssthresh > cwnd)
		ssthresh = MIN_WINDOW;
	ca->prior_cwnd = cwnd;
	trace(sk, CC_EVENT_REDUCE, ssthresh, 0, 0);
	return ssthresh;
}

/*
 * The kernel calls dctcp_ssthresh before it reports the reason, a loss. Repeated calls change
 * nothing.
 */
static __always_inline void halve_ssthresh(struct sock *sk)
{
	__u32 half = state_of(sk)->prior_cwnd / 2;

	((struct tcp_sock *)sk)->snd_ssthresh = half > MIN_WINDOW ? half : MIN_WINDOW;
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state)
{
	if (new_state == TCP_CA_Recovery || new_state == TCP_CA_Loss)
		halve_ssthresh(sk);
}

static __always_inline void set_echo(struct sock *sk, __u32 ce)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u8 flags = tp->ecn_flags;

	tp->ecn_flags = ce ? flags | ECN_ECHO : flags & ~ECN_ECHO;
}

/*
 * Reports whether data received before the current packet is unacknowledged. The kernel stores
 * RCV.NXT with every acknowledgment; for an early one, which covers less, the stored value is too
 * high. ICSK_ACK_NOW is set until the second acknowledgment is sent.
 */
static __always_inline int has_unacknowledged_data(struct tcp_sock *tp, struct dctcp *ca)
{
	if ((__s32)(ca->rcv_nxt - tp->rcv_wup) > 0)
		return 1;
	return ca->early && ca->rcv_nxt == tp->rcv_wup && tp->inet_conn.icsk_ack.pending & ICSK_ACK_NOW;
}

/* RFC 8257, section 3.2, with both permitted acknowledgments. */
static __always_inline void receive_ce(struct sock *sk, __u16 ce)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u16 early = 0;

	if (ca->ce != ce) {
		if (has_unacknowledged_data(tp, ca)) {
			set_echo(sk, ca->ce);
			bpf_tcp_send_ack(tp, ca->rcv_nxt);
			early = 1;
		}
		tp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->early = early;
	ca->rcv_nxt = tp->rcv_nxt;
	ca->ce = ce;
	set_echo(sk, ce);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	/* The numbers of these events differ between kernels. */
	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		receive_ce(sk, 1);
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE))
		receive_ce(sk, 0);
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_LOSS))
		halve_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

/* Undoes a spurious reduction. */
SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	__u32 cwnd = ((struct tcp_sock *)sk)->snd_cwnd, prior = state_of(sk)->prior_cwnd;

	return cwnd > prior ? cwnd : prior;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops weir_dctcp = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.name = "weir_dctcp", /* Go may replace the name, and sets the flags, at load time */
};

const struct cc_event *dctcp_unused_event __attribute__((unused)); /* keeps the type for Go */
