/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data that this node adds to a trace (RFC 9197 section 4.4.2).
 *
 * Fields are stored almost without branches: each is written at the current position, which only
 * requested fields advance. The word behind the last field is overwritten, and restored.
 */
#ifndef WEIR_IOAM_NODE_DATA_H
#define WEIR_IOAM_NODE_DATA_H

#include <bpf/bpf_core_read.h>

#include "../../../bpf/checksum.h"
#include "cache.h"
#include "maps.h"

#define NONE32 0xffffffffU
#define TYPE_INTERFACES 0x404000U /* short and wide form */
#define TYPE_HOP_LIMIT 0x808000U
#define TYPE_QUEUE 0x020000U
#define TYPE_CHECKSUM 0x010000U
#define TYPE_WIDE 0x00e000U
#define TYPE_OPAQUE 2U
#define CARRIED NONE32 /* instead of a Namespace-ID */
#define EPOCH_NTP 2208988800ULL /* seconds from 1900 to 1970 */

/* 1 if the kernel lets these programs read its memory. */
const volatile __u32 ioam_reads = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gnet_stats_queue___ioam {
	__u32 backlog;
};

struct Qdisc___ioam {
	unsigned int flags;
	struct gnet_stats_queue___ioam qstats;
};

struct netdev_queue___ioam {
	struct Qdisc___ioam *qdisc;
};

struct net_device___ioam {
	struct netdev_queue___ioam *_tx;
};

struct sk_buff___ioam {
	struct net_device___ioam *dev;
};
#pragma clang attribute pop

#define QDISC_PERCPU 0x20 /* TCQ_F_CPUSTATS: per-CPU counters, not readable here */
#define read_kernel(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

/* Backlog in bytes of the qdisc of the packet's transmit queue. */
static __always_inline __u32 queue_depth(struct __sk_buff *skb)
{
	struct __sk_buff *volatile here = skb; /* the context pointer is the sk_buff pointer */
	struct sk_buff___ioam *packet = 0;
	struct net_device___ioam *dev = 0;
	struct netdev_queue___ioam *queue = 0;
	struct Qdisc___ioam *qdisc = 0;
	__u32 flags = 0, backlog = NONE32, mapping = skb->queue_mapping;

	if (!ioam_reads)
		return NONE32;
	bpf_probe_read_kernel(&packet, sizeof(packet), (void *)&here);
	read_kernel(dev, packet->dev);
	read_kernel(queue, dev->_tx);
	queue = (void *)queue + mapping * bpf_core_type_size(struct netdev_queue___ioam);
	read_kernel(qdisc, queue->qdisc);
	if (read_kernel(flags, qdisc->flags) || flags & QDISC_PERCPU)
		return NONE32;
	read_kernel(backlog, qdisc->qstats.backlog);
	return backlog;
}

#define SECOND 1000000000ULL /* ns */
#define THOUSANDTH 274877907ULL /* 2^38 / 1000, rounded up: exact for 32 bits */
#define THOUSANDTH_SHIFT 38
#define AHEAD_AGAIN 100000000ULL /* ns between clock comparisons: a clock step shows after at most this time */

/* UTC of a monotonic time. Both clocks have the same rate, so the difference is cached. */
static __always_inline __u64 utc(struct ioam_work *w, const struct ioam_settings *node, __u64 now)
{
	if (now >= w->ahead_until) {
		w->ahead = bpf_ktime_get_tai_ns() - node->tai_offset - now;
		w->ahead_until = now + AHEAD_AGAIN;
	}
	return now + w->ahead;
}

/* Stores a time in the node's format. */
static __always_inline void stamp(struct ioam_work *w, const struct ioam_settings *node, __u64 time)
{
	__u64 seconds = w->second, rest = time - w->second_began;

	if (rest >= SECOND) { /* a new second; otherwise no division, which would cost as much as the fields */
		seconds = w->second = time / SECOND;
		w->second_began = seconds * SECOND;
		rest = time - w->second_began;
	}
	w->seconds = seconds;
	if (node->clock == IOAM_PTP) {
		w->fraction = rest;
	} else if (node->clock == IOAM_NTP) {
		w->seconds = seconds + EPOCH_NTP;
		w->fraction = (rest << 32) / SECOND;
	} else {
		w->fraction = rest * THOUSANDTH >> THOUSANDTH_SHIFT;
	}
}

#define AF_IP6 10

/*
 * Finds the egress interface and hop limit of a packet with options that end here, by its route.
 * Packets for this host have no egress interface.
 */
__attribute__((noinline)) int find_egress(struct __sk_buff *skb)
{
	struct ioam_work *w = work();
	struct bpf_fib_lookup *fib;
	struct ioam_cached_interface *dev;
	long found;

	if (!w)
		return 0;
	_Static_assert(sizeof(*fib) <= sizeof(w->fib), "a look-up of a route has its place");
	fib = (struct bpf_fib_lookup *)w->fib;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = AF_IP6;
	fib->ifindex = skb->ifindex;
	if (bpf_skb_load_bytes(skb, w->l2 + 8, fib->ipv6_src, 32))
		return 0;
	found = bpf_fib_lookup(skb, fib, sizeof(*fib), BPF_FIB_LOOKUP_SKIP_NEIGH);
	if (found != BPF_FIB_LKUP_RET_SUCCESS && found != BPF_FIB_LKUP_RET_NO_NEIGH)
		return 0;
	w->hop_limit--;
	dev = lookup_interface(w, fib->ifindex);
	if (!dev->configured)
		return 0;
	w->egress = dev->id;
	w->wide_egress = dev->wide;
	return 0;
}

enum sampled {
	SAMPLED_TIME = 1,
	SAMPLED_QUEUE = 2,
	SAMPLED_INGRESS = 4,
	SAMPLED_EGRESS = 8,
};

/* Reads the values of a packet that its traces share. */
static __always_inline void sample(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, __u32 type)
{
	__u32 sampled = w->sampled;

	if (!(sampled & SAMPLED_TIME)) {
		__u64 now = bpf_ktime_get_ns(), time = utc(w, node, now);

		w->sampled = sampled |= SAMPLED_TIME;
		w->now = now;
		w->delay = NONE32;
		/* Forwarded: ioam_ingress() stored the arrival time. */
		if (!w->at_exit && skb->ingress_ifindex && skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO) {
			__u64 delay = now - skb->tstamp;

			if ((__s64)delay >= 0) {
				time -= delay;
				w->delay = delay >> 31 ? 0x80000000U : delay;
			}
		}
		stamp(w, node, time);
	}
	if (type & TYPE_INTERFACES && !(sampled & SAMPLED_INGRESS)) {
		w->sampled = sampled |= SAMPLED_INGRESS;
		w->ingress = 0xffff;
		w->wide_ingress = NONE32;
		if (w->from) {
			struct ioam_cached_interface *from = lookup_interface(w, w->from);

			w->ingress = from->id;
			w->wide_ingress = from->wide;
		}
	}
	if (w->at_exit && type & (TYPE_INTERFACES | TYPE_HOP_LIMIT) && !(sampled & SAMPLED_EGRESS)) {
		w->sampled = sampled |= SAMPLED_EGRESS;
		find_egress(skb);
	}
	if (type & TYPE_QUEUE && !(sampled & SAMPLED_QUEUE)) {
		w->sampled = sampled |= SAMPLED_QUEUE;
		w->queue = w->at_exit ? NONE32 : queue_depth(skb);
	}
}

/* Words of a node's fields (NodeLen). */
static __always_inline __u32 field_words(__u32 type)
{
	return __builtin_popcount(type & 0xfffffc) + (type >> 13 & 1) + (type >> 14 & 1) + (type >> 15 & 1);
}

/* Words of a node's fields and opaque state. */
static __always_inline __u32 node_words(__u32 type, const struct ioam_cached_namespace *ns)
{
	__u32 words = field_words(type);

	return type & TYPE_OPAQUE ? words + 1 + (ns->opaque & (2 * IOAM_OPAQUE - 1)) : words;
}

/* Stores the Checksum Complement, which makes the checksum of the words 0. */
static __always_inline void store_complement(__u32 *words, __u32 mask, __u32 from, __u32 to, __u32 place)
{
	__u32 sum = 0;

	asm volatile("" : "+r"(to)); /* keeps the bound of 48 for the verifier of Linux 6.1 */
	for (__u32 i = 0; i < 48 && from + i < to; i++) {
		__u32 value = words[(from + i) & mask];

		if (from + i != place)
			sum += (value & 0xffff) + (value >> 16);
	}
	sum = ~checksum_fold(sum) & 0xffff;
	words[place & mask] = bpf_htonl((__u32)bpf_ntohs(sum));
}

/* Copies opaque state, of a namespace or of a socket's context; returns the next word. */
static __always_inline __u32 store_opaque(struct ioam_work *w, __u32 *words, __u32 mask, __u32 at, __u32 id)
{
	struct ioam_namespace *ns;

	if (id == CARRIED) {
		for (__u32 i = 0; i < IOAM_CONTEXT_WORDS; i++)
			words[(at + i) & mask] = ((__u32 *)&w->carried)[i];
		return at + IOAM_CONTEXT_WORDS;
	}
	ns = bpf_map_lookup_elem(&ioam_namespaces, &id);
	for (__u32 i = 0; ns && i < IOAM_OPAQUE && i < ns->opaque; i++, at++)
		words[at & mask] = ns->state[i];
	return at;
}

#define PUT(bit, value)                               \
	do {                                          \
		words[at & mask] = bpf_htonl(value);  \
		at += type >> (23 - (bit)) & 1;       \
	} while (0)

/* Stores the data of a known namespace at a word; returns the next word. */
static __always_inline __u32 store_fields(struct ioam_work *w, const struct ioam_settings *node, const struct ioam_cached_namespace *ns, __u32 *words, __u32 mask, __u32 at, __u32 type)
{
	__u32 from = at, end = at + node_words(type, ns), behind = words[end & mask], place;

	PUT(0, w->hop_limit << 24 | node->id);
	PUT(1, w->ingress << 16 | w->egress);
	PUT(2, w->seconds);
	PUT(3, w->fraction);
	place = at;
	if (type & 0x0f0000) {
		PUT(4, w->delay);
		PUT(5, ns->data);
		PUT(6, w->queue);
		place = at;
		PUT(7, 0);
	}
	if (type & 0x00fffe) { /* rare fields */
		PUT(8, (w->hop_limit << 24 | (__u32)(node->wide_id >> 32)));
		PUT(8, (__u32)node->wide_id);
		PUT(9, w->wide_ingress);
		PUT(9, w->wide_egress);
		PUT(10, (__u32)(ns->wide_data >> 32));
		PUT(10, (__u32)ns->wide_data);
		PUT(11, NONE32); /* buffer occupancy: not available */
#pragma clang loop unroll(disable)
		for (int bit = 12; bit < 22; bit++)
			PUT(bit, NONE32);
		PUT(22, ns->opaque << 24 | ns->schema);
		if (type & TYPE_OPAQUE)
			store_opaque(w, words, mask, at, ns->key - 1);
	}
	words[end & mask] = behind;
	if (type & TYPE_CHECKSUM)
		store_complement(words, mask, from, end, place);
	return end;
}

/* store_fields() into the header copy, for a Namespace-ID. */
__attribute__((noinline)) int fill_header(__u32 id, __u32 at, __u32 type)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();

	return w && node ? store_fields(w, node, lookup_namespace(w, id), w->in.words, WORD_MASK, at, type) : at;
}

/* The same, with the socket's context as opaque state. */
__attribute__((noinline)) int fill_carrier(__u32 id, __u32 at, __u32 type)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();

	if (!w || !node)
		return at;
	w->carrier = *lookup_namespace(w, id);
	w->carrier.key = CARRIED + 1;
	w->carrier.schema = node->schema;
	w->carrier.opaque = IOAM_CONTEXT_WORDS;
	return store_fields(w, node, &w->carrier, w->in.words, WORD_MASK, at, type);
}

/* The same into a postcard. */
__attribute__((noinline)) int fill_postcard(__u32 id, __u32 at, __u32 type)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();

	return w && node ? store_fields(w, node, lookup_namespace(w, id), w->out, POSTCARD_MASK, at, type) : at;
}

#endif /* WEIR_IOAM_NODE_DATA_H */
