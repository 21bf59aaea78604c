/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Applies rLEDBAT (rledbat.h) to the receive windows of connections.
 *
 * Each update runs under the socket's lock when the kernel computes the option length of a segment
 * (BPF_SOCK_OPS_HDR_OPT_LEN_CB), before it fills in the window. The socket's fields describe the
 * received data, so no program reads packets. The callback for received segments would miss most
 * of them, because header prediction bypasses it.
 *
 *     TCP_WINDOW_CLAMP         max. advertised window. Receive buffer tuning raises it, so each
 *                              update reads it.
 *     BPF_SOCK_OPS_RWND_INIT   limits the first window, in the SYN, to the start of slow start
 */
#ifndef WEIR_CC_RECEIVE_H
#define WEIR_CC_RECEIVE_H

#include "kernel.h"
#include "rledbat.h"
#include "rshare.h"
#include "paths.h"

#define IPPROTO_TCP 6
#define TCP_WINDOW_CLAMP 10
#define LOOPBACK 1 /* index of its device */

struct receive_socket {
	struct rledbat control;
	__u32 echoed; /* last echoed timestamp */
	__u32 own;    /* bytes: clamp set by the kernel or the application */
	__u32 bound;  /* bytes: last clamp of this program; 0 for none */
	__u32 scope;  /* number of the scope */
	struct rshare share;
};

/* Scope to its connections that are held at the min. window; sized at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ledbat_count);
} assign_sharing SEC(".maps");

/* Connections with rLEDBAT. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct receive_socket);
} receive_sockets SEC(".maps");

/*
 * Returns the RTT sample of the last segment in us; 0 without one. The kernel has already
 * subtracted the connection's offset from the echo. Timestamps have a resolution of 1 ms and are
 * rounded down, so a sample is at most 1 ms too long.
 */
static __always_inline __u32 sample_rtt(struct tcp_sock *tp, struct receive_socket *r)
{
	__u32 echo = tp->rx_opt.rcv_tsecr, jiffies = bpf_jiffies64();
	__u64 us = bpf_ktime_get_ns() / 1000;

	if (!BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp) || !echo || (__s32)(echo - r->echoed) <= 0)
		return 0;
	r->echoed = echo;
	/* An earlier segment: a late read by the application is no queue of the network. */
	if (tp->inet_conn.icsk_ack.lrcvtime != jiffies)
		return 0;
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		return (__u32)us - echo;
	__u32 ms = (__u32)(us / 1000) - echo;
	return ms < 60000 ? ms * 1000 + us % 1000 + 1 : 0;
}

/*
 * Limits the unit of the advertised window, 1 << window scale, to 128 bytes, before the SYN. The
 * kernel rounds windows up to units, and a unit of 1024 would allow a whole segment where only a
 * part of one is intended. Windows are at most 8 MiB then.
 */
static __always_inline void request_small_unit(struct bpf_sock_ops *ops, struct tcp_sock *tp)
{
	__u32 most = (1 << 23) - 1;

	if (!tp->window_clamp || tp->window_clamp > most)
		bpf_setsockopt(ops, IPPROTO_TCP, TCP_WINDOW_CLAMP, &most, sizeof(most));
}

/*
 * Sets the window clamp. A clamp above ours belongs to the kernel or the application, and is stored
 * for restore_window_clamp; a clamp below ours stays.
 */
static __always_inline void set_window_clamp(struct bpf_sock_ops *ops, struct tcp_sock *tp,
				struct receive_socket *r)
{
	__u32 current = tp->window_clamp, value = r->share.measures ? RSHARE_PAIR * tp->advmss : rledbat_bytes(r->control.window);

	if (!r->bound || current > r->bound)
		r->own = current > r->own ? current : r->own;
	if (value > r->own)
		value = r->own;
	if (value == current || (r->bound && current < r->bound && value > current))
		return;
	if (!bpf_setsockopt(ops, IPPROTO_TCP, TCP_WINDOW_CLAMP, &value, sizeof(value)))
		r->bound = tp->window_clamp; /* the kernel enforces a minimum */
}

/* Restores the former clamp unless another clamp was set meanwhile. */
static __always_inline void restore_window_clamp(void *ctx, struct tcp_sock *tp, struct receive_socket *r)
{
	__u32 own = r->own;

	r->control.phase = 0;
	if (r->bound && tp->window_clamp == r->bound)
		bpf_setsockopt(ctx, IPPROTO_TCP, TCP_WINDOW_CLAMP, &own, sizeof(own));
	r->bound = 0;
}

static __always_inline void count_step(struct cc_scope_counts *counts, const struct rledbat *r, int done)
{
	if (done & RLEDBAT_SLOWED)
		counts->slowdowns++;
	if (done & RLEDBAT_REDUCED)
		counts->reductions++;
	counts->steps++;
	counts->window += rledbat_bytes(r->window);
	counts->delay += delay_of(&r->delays, base_of(&r->delays));
}

/* Updates the window before any segment is written. */
static __always_inline void update_window(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	struct receive_socket *r = sk ? bpf_sk_storage_get(&receive_sockets, sk, 0, 0) : 0;

	if (!tp || !r || !r->control.phase || ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS)
		return;
	struct cc_scope *scope = bpf_map_lookup_elem(&assign_scopes, &r->scope);
	struct cc_scope_counts *counts = bpf_map_lookup_elem(&assign_counts, &r->scope);
	struct ledbat_count *sharing = bpf_map_lookup_elem(&assign_sharing, &r->scope);

	if (!scope || !counts || !sharing)
		return;
	if (!scope->receive.target) { /* the scope has ended */
		restore_window_clamp(ops, tp, r);
		return;
	}
	struct rledbat_ack ack = {
		.now = ticks(), .rtt = sample_rtt(tp, r), .next = tp->rcv_nxt, .edge = tp->rcv_wup + tp->rcv_wnd, .mss = tp->advmss,
		.tsval = tp->rx_opt.rcv_tsval, .hole = tp->out_of_order_queue.rb_node != 0, .paused = tp->rcv_wnd < tp->advmss,
	};
	/* Nothing was received: the segment carries only data of ours. */
	if (ack.next == r->control.next && ack.hole == r->control.hole && !ack.rtt && r->bound)
		return;
	struct ledbat_path *path = path_of((struct sock *)tp, ack.now);

	if (!path)
		return;
	int done = rshare_update(&r->control, &ack, &scope->receive, path, sharing, &r->share);

	set_window_clamp(ops, tp, r);
	count_step(counts, &r->control, done);
}

/* Reports whether both ends are on this host, where no queue is shared. */
static __always_inline int is_loopback(struct tcp_sock *tp)
{
	struct dst_entry *to = tp->inet_conn.icsk_inet.sk.sk_dst_cache;
	struct net_device *device = to ? to->dev : 0;

	return device && device->ifindex == LOOPBACK;
}

/* Starts rLEDBAT on an established connection. */
static __always_inline void begin_receive(struct bpf_sock_ops *ops, struct tcp_sock *tp, __u32 scope,
				struct cc_scope_counts *counts, int shadow)
{
	struct bpf_sock *sk = ops->sk;
	struct receive_socket *r;
	struct ledbat_path *path;

	if (is_loopback(tp))
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
	rledbat_init(&r->control, ticks(), tp->rcv_nxt, tp->advmss);
	path = path_of((struct sock *)tp, ticks());
	if (path)
		inherit_base(path, &r->control.delays);
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* Replaces the kernel's type; the verifier knows the types of these pointers. */
struct bpf_iter__tcp {
	void *meta;
	void *sk_common;
	__u64 uid;
};

/* Restores the windows of a network namespace's connections after the policy ends. */
SEC("iter/tcp")
int receive_free(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;
	struct tcp_sock *tp = common ? bpf_skc_to_tcp_sock(common) : 0;
	struct receive_socket *r = tp ? bpf_sk_storage_get(&receive_sockets, tp, 0, 0) : 0;

	if (r && r->control.phase)
		restore_window_clamp(tp, tp, r);
	return 0;
}

#endif /* WEIR_CC_RECEIVE_H */
