/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP senders of this host are paced at the fair rate of their line, so that their queue is empty.
 * Those that send to sockets of this host are held to that of theirs by the window that the sockets
 * advertise: what it lets them have in flight for a round trip and a mark threshold. A packet tells
 * its socket which line that is; a socket whose packets are not charged any more, since they go by
 * another device or the limit has ended, has its own pace and window again.
 */
#ifndef WEIR_DELAY_PACING_H
#define WEIR_DELAY_PACING_H

#include "../receive_window.h"
#include "flow.h"

#define PASS 1
#define CURRENT_MSS 1 /* args[0] of a callback for headers: a segment's size is asked for, none is written */
#define RTT_MEAN_SHIFT 3 /* 2^-n; what a sample weighs in the mean round-trip time */
#define BURST_US 1000 /* of the line, which cwnd is longer by */
#define BURST_MARKS 3 /* mark thresholds of the flow's rate, by which it is no longer than that */
#define STALE_US 500000  /* beyond two round trips, after which a socket that is acknowledged must have been charged */

struct delay_socket {
	struct paced paced;
	__u32 line;       /* key of the line that was slowest for its last packet; 0 before */
	__u64 charged_ns; /* when that was, CLOCK_MONOTONIC */
	struct held_window held;
	__u32 receives;    /* key of the line by which its last packet came; 0 before */
	__u64 received_ns; /* when that was */
};

const volatile __u64 delay_netns = 0; /* cookie of the network namespace whose devices are meant */

/* Sockets of TCP that were charged, or have received. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct delay_socket);
} delay_sockets SEC(".maps");

/* What is kept of the TCP socket that a packet comes from, or goes to; 0 where it has none here. */
static __always_inline struct delay_socket *delay_socket_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->state == BPF_TCP_LISTEN)
		return 0;
	return bpf_sk_storage_get(&delay_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/*
 * The callbacks that sockets are asked for: that for headers, which comes with every segment, only
 * where a line is of what is received. They are never cleared, as in ../sockops.h.
 */
static __always_inline __u32 delay_callbacks(const struct delay_settings *settings)
{
	return BPF_SOCK_OPS_RTT_CB_FLAG | (settings->receives ? BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : 0);
}

/* What a line lets one TCP flow have. */
struct delay_part {
	__u64 rate;     /* octet/s; UNLIMITED where the socket's packets are not charged to the line (any more) */
	__u64 rtt_us;   /* of the path, without queues */
	__u64 ahead_ns; /* the line's mark threshold */
	__u64 line_rate; /* octet/s */
};

/* The part of a socket in a line to which a packet of its was charged at some time. */
static __always_inline struct delay_part delay_part_of(struct bpf_sock_ops *ops, __u32 key, __u64 charged_ns)
{
	struct delay_config *line = bpf_map_lookup_elem(&delay_configs, &key);
	struct delay_state *state = bpf_map_lookup_elem(&delay_states, &key);
	__u32 smoothed_us = ops->srtt_us >> 3, rtt_us = ops->rtt_min;
	struct delay_part part = {.rate = UNLIMITED, .rtt_us = rtt_us < UNBOUND ? rtt_us : smoothed_us};

	if (!line || !line->rate || !state || !state->fair_rate || (bpf_ktime_get_ns() - charged_ns) / 1000 >= STALE_US + 2 * (__u64)smoothed_us)
		return part;
	part.rate = state->fair_rate;
	part.ahead_ns = line->mark_ns;
	part.line_rate = line->rate;
	if (rtt_us < UNBOUND)
		state->rtt_us = state->rtt_us ? (((1 << RTT_MEAN_SHIFT) - 1) * (__u64)state->rtt_us + rtt_us) >> RTT_MEAN_SHIFT : rtt_us;
	return part;
}

/*
 * How much longer a paced flow's cwnd is, in its own time. TCP sends up to half of its cwnd at
 * once: what goes in one super-packet costs the host less, and keeps others waiting.
 */
static __always_inline __u64 delay_burst_us(const struct delay_part *part)
{
	__u64 burst_us = BURST_US * part->line_rate / part->rate, most_us = BURST_MARKS * part->ahead_ns / 1000;

	return burst_us < most_us ? burst_us : most_us;
}

/*
 * Holds who sends to a socket. Its round-trip time is that of the handshake where it only receives;
 * the fair rate makes up for the difference.
 */
static __always_inline void delay_hold(struct bpf_sock_ops *ops, struct delay_socket *receiver)
{
	__u32 key = receiver->receives;
	__u64 window = RWND_MOST;
	struct delay_counters *count;
	struct delay_part part;

	if (!key || ops->args[0] == CURRENT_MSS || bpf_get_netns_cookie(ops) != delay_netns)
		return;
	part = delay_part_of(ops, key, receiver->received_ns);
	if (part.rate < UNLIMITED)
		window = part.rate * (part.rtt_us + part.ahead_ns / 1000) / 1000000;
	else if (!receiver->held.octets)
		return;
	if (!hold_window(ops, &receiver->held, window))
		return;
	count = bpf_map_lookup_elem(&delay_counts, &key);
	if (count)
		count->passed.windows++;
}

/*
 * Senders are paced with their RTT samples; receivers, which have none, are handled with their
 * acknowledgements.
 */
SEC("sockops")
int delay_pace(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	__u32 op = ops->op, first = 0;
	struct delay_settings *settings = bpf_map_lookup_elem(&delay_current, &first);
	struct delay_socket *known;
	struct delay_part part;

	if (!sk || !settings)
		return 1;
	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | delay_callbacks(settings));
	else if (op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	known = bpf_sk_storage_get(&delay_sockets, sk, 0, 0);
	if (!known)
		return 1;
	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		delay_hold(ops, known);
		return 1;
	}
	if (!known->line)
		return 1;
	part = delay_part_of(ops, known->line, known->charged_ns);
	pace(ops, &known->paced, part.rate);
	/* By the smoothed round-trip time bursts would grow with the queue that they make. */
	bound_cwnd(ops, &known->paced, part.rate, part.rtt_us + delay_burst_us(&part) / 2, part.ahead_ns);
	return 1;
}

/*
 * A packet has come to its socket. Its flow is one of those that are held once that has begun:
 * where sockets tell nothing of their acknowledgements it never does. The device may be one of
 * another network namespace, whose sockets are not held.
 */
SEC("cgroup_skb/ingress")
int delay_arrive(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, *line = bpf_map_lookup_elem(&delay_receivers, &device);
	struct delay_socket *receiver = line ? delay_socket_of(skb) : 0;
	struct delay_flow *flow;

	if (!receiver)
		return PASS;
	receiver->receives = *line;
	receiver->received_ns = bpf_ktime_get_ns();
	flow = receiver->held.own ? delay_flow_of(0, skb->hash, *line) : 0;
	if (flow)
		flow->used_ns = DELAY_HELD + 1;
	return PASS;
}

/* Asks for the callbacks of a socket that was open before. */
SEC("iter/tcp")
int delay_adopt(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = visited(ctx);
	__u32 first = 0;
	struct delay_settings *settings = bpf_map_lookup_elem(&delay_current, &first);

	if (tcp && settings)
		ask_callbacks(tcp, delay_callbacks(settings));
	return 0;
}

/* Gives a socket back what it had. */
SEC("iter/tcp")
int delay_free(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = visited(ctx);
	struct delay_socket *known = tcp ? bpf_sk_storage_get(&delay_sockets, tcp, 0, 0) : 0;

	if (known) {
		unpace(tcp, &known->paced);
		free_window(tcp, &known->held);
	}
	return 0;
}

#endif
