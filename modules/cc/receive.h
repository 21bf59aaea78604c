/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steers the windows that receiving connections advertise, by rLEDBAT (rledbat.h).
 *
 * All of it happens when an acknowledgment is about to be written, under the socket's lock: the
 * kernel then asks how much room for options it takes (BPF_SOCK_OPS_HDR_OPT_LEN_CB), and fills in
 * the window afterwards. What has come meanwhile is in the connection's own fields, so no packet
 * need be seen. A callback for incoming segments would miss most of them: the kernel's header
 * prediction passes it by.
 *
 *     TCP_WINDOW_CLAMP   is the bound of what is advertised, and what the kernel's tuning of the
 *                        receive buffer raises, so it is looked at each time
 *     BPF_SOCK_OPS_RWND_INIT   keeps the first window, in the SYN, to what slow start begins with
 */
#ifndef WEIR_CC_RECEIVE_H
#define WEIR_CC_RECEIVE_H

#include "kernel.h"
#include "rledbat.h"

#define IPPROTO_TCP 6
#define TCP_WINDOW_CLAMP 10
#define LOOPBACK 1 /* index of its device */

struct receive_socket {
	struct rledbat control;
	__u32 echoed; /* timestamp of ours that came back last */
	__u32 own;    /* octets: the bound of others, as the kernel's tuning */
	__u32 bound;  /* octets: what was set last; 0 for nothing */
	__u32 scope;  /* whose connection it is */
};

/* Connections whose windows are steered. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct receive_socket);
} receive_sockets SEC(".maps");

/*
 * The round trip that the segment which came last tells of, in us; 0 for none. The kernel has taken
 * the connection's offset from the echo already. Timestamps are of milliseconds, and of the time
 * from which their millisecond began, so a round trip seems longer by one at most.
 */
static __always_inline __u32 round_trip(struct tcp_sock *tp, struct receive_socket *r)
{
	__u32 echo = tp->rx_opt.rcv_tsecr, jiffies = bpf_jiffies64();
	__u64 us = bpf_ktime_get_ns() / 1000;

	if (!BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp) || !echo || (__s32)(echo - r->echoed) <= 0)
		return 0;
	r->echoed = echo;
	/* It came before: an application that reads late is no queue of the network. */
	if (tp->inet_conn.icsk_ack.lrcvtime != jiffies)
		return 0;
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		return (__u32)us - echo;
	__u32 ms = (__u32)(us / 1000) - echo;
	return ms < 60000 ? ms * 1000 + us % 1000 + 1 : 0;
}

/*
 * Bounds the window. A bound that somebody else has set above ours is theirs, and kept; below ours
 * it is left alone.
 */
static __always_inline void bound_window(struct bpf_sock_ops *ops, struct tcp_sock *tp, struct receive_socket *r)
{
	__u32 current = tp->window_clamp, value = rledbat_octets(r->control.window);

	if (!r->bound || current > r->bound)
		r->own = current > r->own ? current : r->own;
	if (value > r->own)
		value = r->own;
	if (value == current || (r->bound && current < r->bound && value > current))
		return;
	if (!bpf_setsockopt(ops, IPPROTO_TCP, TCP_WINDOW_CLAMP, &value, sizeof(value)))
		r->bound = tp->window_clamp; /* the kernel has a least one */
}

/* Gives a window back the bound that it had. What others have set since is theirs. */
static __always_inline void free_window(void *ctx, struct tcp_sock *tp, struct receive_socket *r)
{
	__u32 own = r->own;

	r->control.phase = 0;
	if (r->bound && tp->window_clamp == r->bound)
		bpf_setsockopt(ctx, IPPROTO_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own));
	r->bound = 0;
}

static __always_inline void count_receive(struct cc_scope_counts *counts, const struct rledbat *r, int done)
{
	if (done & RLEDBAT_SLOWED)
		counts->slowdowns++;
	if (done & RLEDBAT_REDUCED)
		counts->reductions++;
	counts->steps++;
	counts->window += rledbat_octets(r->window);
	counts->delay += delay_of(&r->delays, base_of(&r->delays));
}

/* An acknowledgment, or another segment, is about to be written. */
static __always_inline void receive_written(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	struct receive_socket *r = sk ? bpf_sk_storage_get(&receive_sockets, sk, 0, 0) : 0;

	if (!tp || !r || !r->control.phase || ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS)
		return;
	struct cc_scope *scope = bpf_map_lookup_elem(&assign_scopes, &r->scope);
	struct cc_scope_counts *counts = bpf_map_lookup_elem(&assign_counts, &r->scope);

	if (!scope || !counts)
		return;
	if (!scope->receive.target) { /* the scope has ended */
		free_window(ops, tp, r);
		return;
	}
	struct rledbat_ack ack = {
		.now = ticks(), .rtt = round_trip(tp, r), .next = tp->rcv_nxt, .edge = tp->rcv_wup + tp->rcv_wnd, .mss = tp->advmss,
		.tsval = tp->rx_opt.rcv_tsval, .hole = tp->out_of_order_queue.rb_node != 0,
	};
	/* Nothing has come: it is a segment with data of ours. */
	if (ack.next == r->control.next && ack.hole == r->control.hole && !ack.rtt && r->bound)
		return;
	int done = rledbat_step(&r->control, &ack, &scope->receive);

	bound_window(ops, tp, r);
	count_receive(counts, &r->control, done);
}

/* Both ends are on this host, where there is no queue to yield in. */
static __always_inline int stays_here(struct tcp_sock *tp)
{
	struct dst_entry *to = tp->inet_conn.icsk_inet.sk.sk_dst_cache;
	struct net_device *device = to ? to->dev : 0;

	return device && device->ifindex == LOOPBACK;
}

/* Begins to steer a connection that is complete. */
static __always_inline void receive_begin(struct bpf_sock_ops *ops, struct tcp_sock *tp, __u32 scope, struct cc_scope_counts *counts, int shadow)
{
	struct bpf_sock *sk = ops->sk;
	struct receive_socket *r;

	if (stays_here(tp))
		return;
	if (!BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok)) {
		counts->no_timestamps++;
		return;
	}
	counts->receivers++;
	if (shadow || !sk)
		return;
	r = bpf_sk_storage_get(&receive_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!r)
		return;
	__builtin_memset(r, 0, sizeof(*r));
	r->scope = scope;
	r->echoed = tp->rx_opt.rcv_tsecr;
	rledbat_begin(&r->control, ticks(), tp->rcv_nxt, tp->advmss);
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* Stands in for the kernel's: the verifier knows the types of these pointers. */
struct bpf_iter__tcp {
	void *meta;
	void *sk_common;
	__u64 uid;
};

/* Frees the windows of a network namespace's connections, once nothing steers them any more. */
SEC("iter/tcp")
int receive_free(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;
	struct tcp_sock *tp = common ? bpf_skc_to_tcp_sock(common) : 0;
	struct receive_socket *r = tp ? bpf_sk_storage_get(&receive_sockets, tp, 0, 0) : 0;

	if (r && r->control.phase)
		free_window(tp, tp, r);
	return 0;
}

#endif /* WEIR_CC_RECEIVE_H */
