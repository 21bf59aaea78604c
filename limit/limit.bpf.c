//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the rate of scopes without building a queue.
 *
 * Every scope has a virtual queue: the time by which all admitted octets would have left a link of the scope's rate.
 *
 *   now - burst        now            now + mark        now + drop - reserve   now + drop
 *        |--------------|----------------|-----------------------|-----------------|
 *         admit                           mark or reduce, with a  admit only small  refuse
 *                                         rising probability      packets
 *
 * The queue is a number, advanced by compare-and-swap (GCRA), so packets never wait in it. TCP senders are kept below the
 * rate by explicit-rate pacing: every few milliseconds one packet updates the rate that a single flow of the scope may
 * use (RCP: up with the unused share of the rate, down with the queue), and the RTT callback of each socket sets it as
 * SO_MAX_PACING_RATE. Marks, reductions and refusals are the safety net behind it.
 *
 * cgroup_skb/egress returns: 1 pass, 2 refuse and reduce the congestion window, 3 pass and reduce it. Ingress: 1 pass, 0 drop.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "limit.h"

char limit_license[] SEC("license") = "Dual BSD/GPL";

#define NO_LIMIT ((__s64)1 << 60)
#define SMALL_PACKET 128          /* wire octets: SYN, ACK, control */
#define RATE_INTERVAL_MAX 1000000000
#define TARGET_SHARE 1009         /* of 1024: what the fair rate aims at */
#define CAS_TRIES 8
#define AF_INET 2
#define LOOPBACK 1                /* ifindex of lo in every namespace */
#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define UNLIMITED 0xffffffffu
#define ANCESTOR_LEVELS 12

/* What is remembered of a socket. */
struct socket_state {
	struct limit_scopes scopes;
	__u32 generation; /* of the scopes, as in limit_settings; 0 before they were looked up */
	__u32 pace;        /* octet/s last set by this program; 0 before the first time */
	__u32 application; /* octet/s the application has set itself; UNLIMITED if it has not */
};

/* Which kinds of scope exist, so that the others cost nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limit_settings);
} limit_current SEC(".maps");

/* Packets of more than LIMIT_SCOPES_PER_SOCKET scopes; the outermost were not charged. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} limit_overflow SEC(".maps");

/* Rates and thresholds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_config);
} limit_configs SEC(".maps");

/* Virtual queues. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_state);
} limit_states SEC(".maps");

/* What was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct limit_counters);
} limit_counts SEC(".maps");

/* Cgroup id to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} limit_cgroups SEC(".maps");

/* User id to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} limit_users SEC(".maps");

/* Interface index to scope. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} limit_interfaces SEC(".maps");

/* Remote prefix to scope, longest match; IPv4 as IPv4-mapped IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct limit_prefix);
	__type(value, __u32);
} limit_prefixes SEC(".maps");

/* What is remembered of every socket that has scopes looked up. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_state);
} limit_sockets SEC(".maps");

/* The packet as the data plane sees it. */
struct packet {
	__u32 segments;
	__u32 headers; /* octets repeated in every segment: network and transport header */
	__u8 protocol;
	__u8 ecn; /* the two ECN bits (RFC 3168) */
	struct limit_prefix remote; /* the other end's address, /128 */
	__u32 idle; /* the TCP sender has nothing in flight */
	__s64 now;  /* CLOCK_MONOTONIC */
};

static __always_inline void parse(struct __sk_buff *skb, struct packet *p, __u32 direction)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 network = 0;

	p->segments = skb->gso_segs ? skb->gso_segs : 1;
	p->protocol = 0;
	p->ecn = 0;
	p->headers = 0;
	p->idle = 0;
	__builtin_memset(&p->remote, 0, sizeof(p->remote));
	p->remote.length = 128;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data;

		if ((void *)(ip + 1) > end)
			return;
		network = ip->ihl * 4;
		p->protocol = ip->protocol;
		p->ecn = ip->tos & 3;
		p->remote.address[2] = bpf_htonl(0xffff);
		p->remote.address[3] = direction == LIMIT_EGRESS ? ip->daddr : ip->saddr;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;

		if ((void *)(ip + 1) > end)
			return;
		network = sizeof(*ip);
		p->protocol = ip->nexthdr;
		p->ecn = ip->flow_lbl[0] >> 4 & 3;
		__builtin_memcpy(p->remote.address, direction == LIMIT_EGRESS ? &ip->daddr : &ip->saddr, 16);
	}
	p->headers = network + 8;
	if (p->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = data + (network & 63);

		if ((void *)(tcp + 1) <= end)
			p->headers = network + tcp->doff * 4;
	}
}

/* Octets on the wire: skb->len counts the headers of a super-packet once. */
static __always_inline __u64 wire_bytes(const struct packet *p, __u32 len, __u32 overhead)
{
	return (__u64)len + (__u64)(p->segments - 1) * p->headers + (__u64)p->segments * overhead;
}

/* Admits cost ns to the queue if it then ends before the limit; returns the queue's length in ns, admitted or not. */
static __always_inline __s64 charge(struct limit_state *state, const struct limit_config *config, __s64 now, __s64 cost,
				    __s64 limit, struct limit_counters *count)
{
	__s64 floor = now - (__s64)config->burst_ns, queue = 0;

	for (int i = 0; i < CAS_TRIES; i++) {
		__s64 old = *(volatile __s64 *)&state->finish_ns;
		__s64 finish = (old < floor ? floor : old) + cost;

		queue = finish - now;
		if (queue > limit)
			return queue;
		if (__sync_val_compare_and_swap(&state->finish_ns, old, finish) == old)
			return queue;
		count->retries++;
	}
	__sync_fetch_and_add(&state->finish_ns, cost);
	return queue;
}

/*
 * Moves the fair rate once per interval T of two mark thresholds: R += R * ((C - y) / 2C - q / 2T), bounded to C/1024 .. C.
 * q is what the queue holds beyond half the mark threshold: a paced super-packet alone is no congestion.
 */
static __always_inline void update_rate(struct limit_state *state, const struct limit_config *config, __u64 now, __u64 wire)
{
	__sync_fetch_and_add(&state->window_bytes, wire);
	__u64 start = state->window_start_ns, elapsed = now - start;

	if (elapsed < 2 * config->mark_ns || __sync_val_compare_and_swap(&state->window_start_ns, start, now) != start)
		return;
	__u64 bytes = state->window_bytes;

	__sync_fetch_and_add(&state->window_bytes, -bytes);
	if (elapsed > RATE_INTERVAL_MAX)
		elapsed = RATE_INTERVAL_MAX;
	__u64 target = (config->rate * TARGET_SHARE >> 10) + 1;
	__u64 offered = bytes * 1000000000ULL / elapsed;
	__u64 up = offered < target ? (target - offered) * 512 / target : 0;
	__u64 down = offered > target ? (offered - target) * 512 / target : 0;
	__s64 queue = state->finish_ns - (__s64)now - (__s64)(config->mark_ns >> 1);
	__u64 behind = queue > 0 ? (__u64)(queue > RATE_INTERVAL_MAX ? RATE_INTERVAL_MAX : queue) * 512 / elapsed : 0;

	if (down > 400)
		down = 400;
	if (behind > 400)
		behind = 400;
	__u64 factor = 1024 + up - down - behind;

	if (factor < 400)
		factor = 400;
	__u64 rate = state->fair_rate * factor >> 10;

	if (rate < (target >> 10) + 1)
		rate = (target >> 10) + 1;
	if (rate > target)
		rate = target;
	state->fair_rate = rate;
	state->updates++;
}

static __always_inline void add_scope(struct limit_scopes *found, const __u32 *scope)
{
	if (!scope)
		return;
	if (found->count < LIMIT_SCOPES_PER_SOCKET)
		found->scope[found->count & (LIMIT_SCOPES_PER_SOCKET - 1)] = *scope;
	found->count++;
}

/*
 * The scopes of a packet: those of its cgroup and of the cgroups above, of its user, remote prefix and interface.
 * A global function is verified once, not with every path that leads to it.
 */
__attribute__((noinline)) int find_scopes(struct __sk_buff *skb, const struct packet *p, const struct limit_settings *settings,
					  struct limit_scopes *found)
{
	if (!p || !settings || !found)
		return 0;
	found->count = 0;
	for (int level = ANCESTOR_LEVELS; level >= 0 && settings->cgroups; level--) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

		if (id)
			add_scope(found, bpf_map_lookup_elem(&limit_cgroups, &id));
	}
	if (settings->users) {
		__u32 user = bpf_get_socket_uid(skb);

		add_scope(found, bpf_map_lookup_elem(&limit_users, &user));
	}
	if (settings->prefixes) {
		struct limit_prefix key = p->remote;

		add_scope(found, bpf_map_lookup_elem(&limit_prefixes, &key));
	}
	if (settings->interfaces) {
		__u32 index = skb->ifindex;

		add_scope(found, bpf_map_lookup_elem(&limit_interfaces, &index));
	}
	if (found->count > LIMIT_SCOPES_PER_SOCKET) {
		__u32 first = 0;
		__u64 *overflow = bpf_map_lookup_elem(&limit_overflow, &first);

		if (overflow)
			*overflow += 1;
		found->count = LIMIT_SCOPES_PER_SOCKET;
	}
	return 0;
}

/*
 * The socket's remembered scopes, looked up with its first packet; 0 where there is no full socket or where scopes may
 * differ from packet to packet: a datagram socket may send anywhere.
 */
static __always_inline struct socket_state *socket_of(struct __sk_buff *skb, const struct packet *p, struct bpf_sock *sk,
						      const struct limit_settings *settings)
{
	if (!sk || p->protocol != IPPROTO_TCP)
		return 0;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (known && known->generation != settings->generation) {
		find_scopes(skb, p, settings, &known->scopes);
		known->generation = settings->generation;
	}
	return known;
}

static __always_inline __u32 bucket(__s64 queue_ns)
{
	__u64 us = queue_ns > 0 ? (__u64)queue_ns / 1000 : 0;
	__u32 index = 0;

	for (int shift = 4; shift >= 0; shift--)
		if (us >> (1u << shift) >> index) {
			index += 1u << shift;
		}
	return index < LIMIT_QUEUE_BUCKETS ? index : LIMIT_QUEUE_BUCKETS - 1;
}

/* One scope's part in a packet. */
struct share {
	__s64 cost;  /* ns charged */
	__s64 queue; /* ns, this packet included */
	__u64 wire;  /* octets */
	__u32 index; /* of the scope and direction in every map */
	__u32 taken; /* the packet was charged */
};

/*
 * Charges the packet to one scope. Returns 0 if the scope refuses it. Global, like find_scopes, so that it is verified
 * once and not for every path through the scopes before.
 */
__attribute__((noinline)) int take(struct __sk_buff *skb, const struct packet *p, struct share *share)
{
	if (!p || !share)
		return 1;
	__u32 index = share->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

	if (!config || !state || !count || !(config->flags & LIMIT_ENFORCED))
		return 1;
	if (skb->ifindex == LOOPBACK && !(config->flags & LIMIT_LOOPBACK))
		return 1;
	__u64 wire = wire_bytes(p, skb->len, config->overhead);
	__s64 cost = wire * config->cost >> LIMIT_COST_SHIFT;
	__s64 limit = config->drop_ns - (wire > SMALL_PACKET ? config->reserve_ns : 0);
	/* A sender with nothing in flight would sit out its probe timer, 200 ms; the ceiling bounds many such senders. */
	__s64 ceiling = p->idle ? 4 * (__s64)config->drop_ns : limit;
	__s64 queue = charge(state, config, p->now, cost, ceiling, count);

	if (!(config->flags & LIMIT_CLASSIC))
		update_rate(state, config, p->now, wire);
	count->queue[bucket(queue) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	if (queue > ceiling) {
		count->refused++;
		return config->flags & LIMIT_SHADOW ? 1 : 0;
	}
	if (queue > limit)
		count->forced++;
	share->cost = cost;
	share->queue = queue;
	share->wire = wire;
	share->taken = 1;
	return 1;
}

enum wish { NOTHING, MARK, REDUCE };

/* Counts an admitted packet and returns what the scope wants done to it: something more likely the longer its queue. */
__attribute__((noinline)) int settle(const struct packet *p, const struct share *share)
{
	if (!p || !share)
		return NOTHING;
	__u32 index = share->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

	if (!config || !count)
		return NOTHING;
	__s64 above = share->queue - (__s64)config->mark_ns;
	__u64 span = config->drop_ns - config->reserve_ns;

	count->packets++;
	count->segments += p->segments;
	count->bytes += share->wire;
	span = span > config->mark_ns ? span - config->mark_ns : 1;
	if (above <= 0 || bpf_get_prandom_u32() % span >= (__u64)above)
		return NOTHING;
	if (p->ecn) {
		count->marked++;
		return config->flags & LIMIT_SHADOW ? NOTHING : MARK;
	}
	if (p->protocol != IPPROTO_TCP || (index & 1) == LIMIT_INGRESS)
		return NOTHING;
	count->reduced++;
	return config->flags & LIMIT_SHADOW ? NOTHING : REDUCE;
}

/* Gives back what was charged for a packet that another scope has refused. */
static __always_inline void give_back(const struct share *share)
{
	__u32 index = share->index;
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	if (state)
		__sync_fetch_and_add(&state->finish_ns, -share->cost);
}

static __always_inline int limit_packet(struct __sk_buff *skb, __u32 direction)
{
	struct share shares[LIMIT_SCOPES_PER_SOCKET] = {};
	struct limit_scopes found = {}, *scopes = &found;
	struct bpf_sock *sk = skb->sk;
	struct packet p;
	__u32 first = 0, refused = 0;
	int wish = NOTHING;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);

	if (!settings || !settings->generation)
		return 1;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	parse(skb, &p, direction);
	struct socket_state *known = socket_of(skb, &p, sk, settings);

	if (known)
		scopes = &known->scopes;
	else
		find_scopes(skb, &p, settings, &found);
	if (!scopes->count)
		return 1;
	if (direction == LIMIT_EGRESS && p.protocol == IPPROTO_TCP && sk) {
		struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);

		p.idle = tcp && tcp->packets_out == 0;
	}
	p.now = bpf_ktime_get_ns();
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= scopes->count || refused)
			break;
		shares[i].index = scopes->scope[i] * 2 + direction;
		refused = !take(skb, &p, &shares[i]);
	}
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (!shares[i].taken)
			continue;
		if (refused) {
			give_back(&shares[i]);
			continue;
		}
		int want = settle(&p, &shares[i]);

		if (want > wish)
			wish = want;
	}
	if (refused)
		return direction == LIMIT_EGRESS ? 2 : 0;
	if (wish == MARK)
		bpf_skb_ecn_set_ce(skb);
	return direction == LIMIT_EGRESS && wish == REDUCE ? 3 : 1;
}

SEC("cgroup_skb/egress")
int limit_egress(struct __sk_buff *skb)
{
	return limit_packet(skb, LIMIT_EGRESS);
}

SEC("cgroup_skb/ingress")
int limit_ingress(struct __sk_buff *skb)
{
	return limit_packet(skb, LIMIT_INGRESS);
}

/* The smallest fair rate of the socket's scopes, octet/s. */
static __always_inline __u64 fair_rate(struct socket_state *known)
{
	__u64 rate = UNLIMITED;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= known->scopes.count)
			break;
		__u32 index = known->scopes.scope[i] * 2 + LIMIT_EGRESS;
		struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (!config || !state || (config->flags & (LIMIT_ENFORCED | LIMIT_SHADOW | LIMIT_CLASSIC)) != LIMIT_ENFORCED)
			continue;
		if (state->fair_rate < rate)
			rate = state->fair_rate;
	}
	return rate;
}

/* Paces the socket at the fair rate, or at the application's own rate where that is lower. */
static __always_inline void pace(struct bpf_sock_ops *ops, struct socket_state *known)
{
	__u32 current = UNLIMITED;

	if (bpf_getsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)))
		return;
	if (!known->pace || current != known->pace)
		known->application = current;
	__u64 rate = fair_rate(known);

	if (rate > known->application)
		rate = known->application;
	/* A change below 1.6 % is not worth a system call's work. */
	if (current != UNLIMITED && rate < current + (current >> 6) && rate + (current >> 6) > current)
		return;
	__u32 value = rate;

	if (value != current && !bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)))
		known->pace = value;
}

SEC("sockops")
int limit_sockops(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	if (!sk)
		return 1;
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	else if (ops->op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, sk, 0, 0);

	if (known && known->generation && known->scopes.count)
		pace(ops, known);
	return 1;
}

/*
 * Sockets that are open already are visited once, one network namespace at a time. The declarations stand in for the
 * kernel's: the verifier knows the types of these pointers, and no field behind them is read.
 */
struct bpf_iter__tcp {
	void *meta;
	void *sk_common;
	__u64 uid;
};

#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#define SOL_TCP 6

/* Sets and clears callback flags and leaves those of other programs alone. */
static __always_inline void set_callbacks(struct tcp_sock *tcp, int set, int clear)
{
	int flags = 0;

	/* Kernels before 6.12 cannot tell the flags; to clear one there would clear them all. */
	if (bpf_getsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)) && clear)
		return;
	flags = (flags | set) & ~clear;
	bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

/* Asks for the RTT callbacks of a socket, which pace it. */
SEC("iter/tcp")
int limit_adopt(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;

	if (!common)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(common);

	if (tcp)
		set_callbacks(tcp, BPF_SOCK_OPS_RTT_CB_FLAG, 0);
	return 0;
}

/* Gives a socket back the pacing rate that its application had set. */
SEC("iter/tcp")
int limit_free(struct bpf_iter__tcp *ctx)
{
	void *common = ctx->sk_common;

	if (!common)
		return 0;
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(common);

	if (!tcp)
		return 0;
	struct socket_state *known = bpf_sk_storage_get(&limit_sockets, tcp, 0, 0);

	if (known && known->pace) {
		__u32 current = 0, rate = known->application;

		/* What the application has set since is its own. */
		if (!bpf_getsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &current, sizeof(current)) && current == known->pace)
			bpf_setsockopt(tcp, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
		known->pace = 0;
		set_callbacks(tcp, 0, BPF_SOCK_OPS_RTT_CB_FLAG);
	}
	return 0;
}
