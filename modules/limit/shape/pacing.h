/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP flow control by the fair rate, so that flows with a socket on this host queue little.
 *
 *   local sender      paced at the fair rate, cwnd bounded
 *   local receiver    receive window (RWND) = fair rate * (RTT + mark threshold)
 *
 * Each charged packet stores the key of its slowest shaper with its socket. A socket without a
 * recently charged packet (another device, or the limit has ended) gets its own pace and window
 * back.
 */
#ifndef WEIR_SHAPE_PACING_H
#define WEIR_SHAPE_PACING_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#include "../police/pace.h"
#include "../police/receive_window.h"
#include "fair_queue.h"
#include "lookup.h"
#include "shaper.h"

#define PASS 1
#define CURRENT_MSS 1 /* args[0] of BPF_SOCK_OPS_HDR_OPT_LEN_CB: the kernel computes the MSS, no header follows */
#define RTT_MEAN_SHIFT 3 /* 2^-n: weight of a sample in the mean RTT */
#define BURST_US 1000 /* us at the shaper's rate that are added to the cwnd for super-packets */
#define BURST_MARKS 3 /* mark thresholds at the flow's rate: bound of that addition */
#define STALE_US 500000 /* us, plus two RTTs: after that an uncharged socket is no longer shaped */

struct shaped_socket {
	struct paced paced;
	__u32 shaper;      /* key of the slowest shaper of the last packet sent; 0: none yet */
	__u64 charged_ns;  /* ns, CLOCK_MONOTONIC: time of that packet */
	struct clamped_window held;
	__u32 receives;    /* key of the shaper of the last packet received; 0: none yet */
	__u64 received_ns; /* ns, CLOCK_MONOTONIC: time of that packet */
};

const volatile __u64 shaper_netns = 0; /* cookie of the network namespace with the shaped devices */

/* Per TCP socket: values set by shaping, and their shapers. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct shaped_socket);
} delay_sockets SEC(".maps");

/* Returns the storage of a packet's local TCP socket, sender or receiver; 0 if it has none. */
static __always_inline struct shaped_socket *lookup_socket(struct __sk_buff *skb)
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
 * Returns the sockops callbacks to enable. The header-option callback runs for every segment, so
 * it is enabled only for ingress shapers. Flags are never cleared, as in ../sockops.h.
 */
static __always_inline __u32 required_callbacks(const struct shaper_settings *settings)
{
	return BPF_SOCK_OPS_RTT_CB_FLAG | (settings->receives ? BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : 0);
}

/* The allowance of one TCP flow. */
struct flow_allowance {
	__u64 rate;        /* bytes/s; UNLIMITED if the socket is not shaped (any more) */
	__u64 rtt_us;      /* us: base RTT of the path */
	__u64 ahead_ns;    /* ns: the shaper's mark threshold */
	__u64 shaper_rate; /* bytes/s */
};

/* Returns the allowance of a socket with its last packet charged to a shaper at charged_ns. */
static __always_inline struct flow_allowance lookup_allowance(struct bpf_sock_ops *ops, __u32 key, __u64 charged_ns)
{
	struct shaper_config *shaper = bpf_map_lookup_elem(&delay_configs, &key);
	struct shaper_state *state = bpf_map_lookup_elem(&delay_states, &key);
	__u32 smoothed_us = ops->srtt_us >> 3, rtt_us = ops->rtt_min;
	struct flow_allowance flow = {.rate = UNLIMITED, .rtt_us = rtt_us < UNBOUND ? rtt_us : smoothed_us};

	if (!shaper || !shaper->rate || !state || !state->fair_rate || (bpf_ktime_get_ns() - charged_ns) / 1000 >= STALE_US + 2 * (__u64)smoothed_us)
		return flow;
	flow.rate = state->fair_rate;
	flow.ahead_ns = shaper->mark_ns;
	flow.shaper_rate = shaper->rate;
	if (rtt_us < UNBOUND)
		state->rtt_us = state->rtt_us ? (((1 << RTT_MEAN_SHIFT) - 1) * (__u64)state->rtt_us + rtt_us) >> RTT_MEAN_SHIFT : rtt_us;
	return flow;
}

/*
 * Returns the addition to a paced flow's cwnd, in us at its rate. TCP sends up to half of its cwnd
 * at once: larger super-packets save CPU, but delay other flows.
 */
static __always_inline __u64 super_packet_us(const struct flow_allowance *flow)
{
	__u64 burst_us = BURST_US * flow->shaper_rate / flow->rate, max_us = BURST_MARKS * flow->ahead_ns / 1000;

	return burst_us < max_us ? burst_us : max_us;
}

/*
 * Throttles a socket's remote sender by the receive window. A socket that only receives has the
 * RTT of its handshake alone; the fair rate adapts to the error.
 */
static __always_inline void throttle_sender(struct bpf_sock_ops *ops, struct shaped_socket *receiver)
{
	__u32 key = receiver->receives;
	__u64 window = RWND_MAX;
	struct shaper_counters *count;
	struct flow_allowance flow;

	if (!key || ops->args[0] == CURRENT_MSS || bpf_get_netns_cookie(ops) != shaper_netns)
		return;
	flow = lookup_allowance(ops, key, receiver->received_ns);
	if (flow.rate < UNLIMITED)
		window = flow.rate * (flow.rtt_us + flow.ahead_ns / 1000) / 1000000;
	else if (!receiver->held.octets)
		return;
	if (!clamp_window(ops, &receiver->held, window))
		return;
	count = bpf_map_lookup_elem(&delay_counts, &key);
	if (count)
		count->passed.windows++;
}

/* Paces senders at RTT samples; sets receive windows at acknowledgements. */
SEC("sockops")
int delay_pace(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	__u32 op = ops->op, first = 0;
	struct shaper_settings *settings = bpf_map_lookup_elem(&delay_current, &first);
	struct shaped_socket *known;
	struct flow_allowance flow;

	if (!sk || !settings)
		return 1;
	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | required_callbacks(settings));
	else if (op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	known = bpf_sk_storage_get(&delay_sockets, sk, 0, 0);
	if (!known)
		return 1;
	if (op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		throttle_sender(ops, known);
		return 1;
	}
	if (!known->shaper)
		return 1;
	flow = lookup_allowance(ops, known->shaper, known->charged_ns);
	pace(ops, &known->paced, flow.rate);
	/* The base RTT: bursts bounded by the smoothed RTT would grow with their own queue. */
	bound_cwnd(ops, &known->paced, flow.rate, flow.rtt_us + super_packet_us(&flow) / 2, flow.ahead_ns);
	return 1;
}

/*
 * Stores the ingress shaper with the receiving socket. The flow counts as paced once its receive
 * window has been set, which never happens to sockets without sockops callbacks or in another
 * network namespace.
 */
SEC("cgroup_skb/ingress")
int delay_arrive(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, *key = bpf_map_lookup_elem(&delay_receivers, &device);
	struct shaped_socket *receiver = key ? lookup_socket(skb) : 0;
	struct shaper_flow *flow;

	if (!receiver)
		return PASS;
	receiver->receives = *key;
	receiver->received_ns = bpf_ktime_get_ns();
	flow = receiver->held.own ? lookup_flow(0, skb->hash, *key) : 0;
	if (flow)
		flow->used_ns = LOCAL_SEEN;
	return PASS;
}

/* Enables the callbacks of a socket that was open before the programs were attached. */
SEC("iter/tcp")
int delay_adopt(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = iterator_socket(ctx);
	__u32 first = 0;
	struct shaper_settings *settings = bpf_map_lookup_elem(&delay_current, &first);

	if (tcp && settings)
		request_callbacks(tcp, required_callbacks(settings));
	return 0;
}

/* Restores a socket's own pace, cwnd bound and receive window. */
SEC("iter/tcp")
int delay_free(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = iterator_socket(ctx);
	struct shaped_socket *known = tcp ? bpf_sk_storage_get(&delay_sockets, tcp, 0, 0) : 0;

	if (known) {
		unpace(tcp, &known->paced);
		restore_window(tcp, &known->held);
	}
	return 0;
}

#endif
