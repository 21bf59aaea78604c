//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Holds the datagrams (UDP with QUIC, and every other protocol but TCP and ICMP) of a cgroup to a
 * rate, and counts the octets of each peer for the controller (controller.go), which sets the rate.
 *
 * Each direction has a virtual queue (GCRA). A datagram that finds it longer than the burst is
 * dropped: at egress before the link and with a congestion notification to the socket, at ingress
 * after it, so that QUIC reduces its rate. Loopback is exempt.
 *
 * cgroup_skb/egress returns 1 to pass and 2 to drop with NET_XMIT_CN.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/upper_layer.h"

char datagrams_license[] SEC("license") = "Dual BSD/GPL";

#define LOOPBACK 1 /* index of its device */
#define PROTOCOL_ICMPV6 58
#define SECOND 1000000000ULL
#define SMALL 256 /* octets: max. of a datagram with a reserve */
#define RESERVE 4 /* bursts that small datagrams may find */

enum { EGRESS = 0, INGRESS = 1 };

/* The limit of each direction. */
struct datagrams_limit {
	__u64 rate;  /* octets/s; 0 for none */
	__u64 burst; /* ns: max. length of the virtual queue */
};

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct datagrams_limit);
} datagrams_limits SEC(".maps");

/* The state of a direction. */
struct datagrams_queue {
	__u64 free;    /* ns, monotonic clock: the virtual queue is empty then */
	__u64 passed;  /* octets with headers */
	__u64 offered; /* octets, dropped ones included */
	__u64 dropped; /* datagrams */
	__u64 rate;    /* octets/s: at the last charge */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct datagrams_queue);
} datagrams_queues SEC(".maps");

/* An address; IPv4 in the last word. */
struct datagrams_peer {
	__u32 address[4];
};

/* Octets by peer. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct datagrams_peer);
	__type(value, __u64);
} datagrams_peers SEC(".maps");

struct header4 {
	__u8 head[9], protocol, sum[2];
	__u32 from, to;
};

struct header6 {
	__u8 head[6], next, hops;
	__u32 from[4], to[4];
};

static __always_inline int is_held(__u8 protocol)
{
	return protocol != IPPROTO_TCP && protocol != IPPROTO_ICMP && protocol != PROTOCOL_ICMPV6;
}

/* Reads the other end's address. Returns 0 for packets that are not held. */
static __always_inline int read_peer(struct __sk_buff *skb, __u32 at, struct datagrams_peer *peer)
{
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct header4 h;

		if (bpf_skb_load_bytes(skb, 0, &h, sizeof(h)) || !is_held(h.protocol))
			return 0;
		peer->address[3] = at == EGRESS ? h.to : h.from;
		return 1;
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct header6 h;

		if (bpf_skb_load_bytes(skb, 0, &h, sizeof(h)))
			return 0;
		struct upper_layer upper = upper_layer_of(h.next);

		if (extension_is(h.next)) /* that of BIG TCP, too */
			upper_layer_walk(skb, &upper, 0);
		if (!is_held(upper.protocol))
			return 0;
		__builtin_memcpy(peer->address, at == EGRESS ? h.to : h.from, sizeof(peer->address));
		return 1;
	}
	return 0;
}

/*
 * Charges a datagram. Returns 0 if the virtual queue is too long. Small ones, such as those of DNS,
 * pass beside bulk, which keeps the queue at its burst: they have a reserve.
 */
static __always_inline int charge(struct datagrams_queue *q, const struct datagrams_limit *limit, __u32 octets)
{
	__u64 rate = limit->rate, now = bpf_ktime_get_ns(), most = octets <= SMALL ? limit->burst * RESERVE : limit->burst;

	__sync_fetch_and_add(&q->offered, octets);
	if (rate) {
		__u64 cost = octets * SECOND / rate;

		for (int i = 0; i < 8; i++) {
			__u64 former = q->free, behind = former > now ? former - now : 0, charged = q->rate;

			/* A queue of octets is shorter at a higher rate. At a lower rate it keeps its time. */
			if (charged && charged < rate)
				behind = behind * charged / rate;
			if (behind > most) {
				__sync_fetch_and_add(&q->dropped, 1);
				return 0;
			}
			if (__sync_val_compare_and_swap(&q->free, former, now + behind + cost) == former) {
				q->rate = rate;
				break;
			}
		}
	}
	__sync_fetch_and_add(&q->passed, octets);
	return 1;
}

static __always_inline int pass(struct __sk_buff *skb, __u32 at)
{
	struct datagrams_queue *queue = bpf_map_lookup_elem(&datagrams_queues, &at);
	__u32 zero = 0;
	struct datagrams_limit *limit = bpf_map_lookup_elem(&datagrams_limits, &zero);
	struct datagrams_peer peer = {};

	if (!queue || !limit || skb->ifindex == LOOPBACK || !read_peer(skb, at, &peer))
		return 1;
	__u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1, header = skb->protocol == bpf_htons(ETH_P_IP) ? 28 : 48;
	__u32 octets = skb->len + (segments - 1) * header;
	__u64 *counted = bpf_map_lookup_elem(&datagrams_peers, &peer), first = octets;

	if (counted)
		__sync_fetch_and_add(counted, octets);
	else
		bpf_map_update_elem(&datagrams_peers, &peer, &first, BPF_ANY);
	return charge(queue, limit, octets);
}

SEC("cgroup_skb/egress")
int datagrams_egress(struct __sk_buff *skb)
{
	return pass(skb, EGRESS) ? 1 : 2;
}

SEC("cgroup_skb/ingress")
int datagrams_ingress(struct __sk_buff *skb)
{
	return pass(skb, INGRESS);
}
