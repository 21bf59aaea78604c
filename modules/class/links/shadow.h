/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shadow mode of a link's classes: virtual queues count the packets that the classes would drop.
 *
 *   waits[p] shrinks at the link's rate, and grows with packets of priorities 0 to p
 *   a packet of priority p is counted as dropped if waits[p] exceeds the queue of its class
 *
 * The model has strict priorities without weights, so it overestimates the delay of a class that
 * stays within its weight.
 *
 * Include it after classify.bpf.c's helpers.
 */
#ifndef WEIR_LINKS_SHADOW_H
#define WEIR_LINKS_SHADOW_H

#define SHADOW_CLASSES 32
#define SHADOW_PRIORITIES 8
#define SHADOW_FIRST 0x10	     /* minor number of the first class */
#define SHADOW_SCALE 24		     /* waits are in 2^-24 bytes */
#define SHADOW_MAX_AGE 10000000000ULL /* ns: max. time without packets that is credited */
#define SHADOW_HEADERS 54	     /* bytes: approximate headers of one segment */

/* Settings, set at load time. */
struct links_settings {
	__u64 rate;		      /* bytes per 2^24 ns */
	__u32 overhead;		      /* bytes per frame on the wire that the host does not see */
	__u32 fallback;		      /* index of the best-effort class */
	__u64 queue[SHADOW_CLASSES];  /* bytes */
	__u32 priority[SHADOW_CLASSES];
};

/* The virtual queues of the link. */
struct links_work {
	struct bpf_spin_lock lock;
	__u64 last; /* ns */
	__u64 waits[SHADOW_PRIORITIES];
};

/* Hypothetical counters of a class. */
struct links_counts {
	__u64 packets; /* a super-packet (GSO) counts as one */
	__u64 octets;  /* bytes, with link-layer headers */
	__u64 dropped; /* packets beyond the class's queue */
};

const volatile struct links_settings links_settings;

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct links_work);
} links_work SEC(".maps");

/* Index of a class to its counters. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SHADOW_CLASSES);
	__type(key, __u32);
	__type(value, struct links_counts);
} links_counters SEC(".maps");

/* Adds a packet to the virtual queues; 0 if its class's queue is full. */
static __always_inline int charge_virtual_queue(struct links_work *work, __u64 octets, __u64 queue, __u32 priority)
{
	__u64 now = bpf_ktime_get_ns(), elapsed, done, own = 0;
	int fits;

	bpf_spin_lock(&work->lock);
	elapsed = now > work->last ? now - work->last : 0;
	if (elapsed > SHADOW_MAX_AGE)
		elapsed = SHADOW_MAX_AGE;
	if (now > work->last)
		work->last = now;
	done = elapsed * links_settings.rate;
#pragma unroll
	for (int p = 0; p < SHADOW_PRIORITIES; p++) {
		work->waits[p] = work->waits[p] > done ? work->waits[p] - done : 0;
		if (p == priority)
			own = work->waits[p];
	}
	fits = (own >> SHADOW_SCALE) <= queue;
#pragma unroll
	for (int p = 0; p < SHADOW_PRIORITIES; p++)
		if (fits && p >= priority)
			work->waits[p] += octets << SHADOW_SCALE;
	bpf_spin_unlock(&work->lock);
	return fits;
}

static __always_inline void count_shadow(struct __sk_buff *skb, __u32 handle)
{
	__u32 zero = 0, frames = skb->gso_segs ? skb->gso_segs : 1;
	__u32 place = handle ? (handle & 0xffff) - SHADOW_FIRST : links_settings.fallback;
	struct links_work *work = bpf_map_lookup_elem(&links_work, &zero);
	struct links_counts *counts;
	__u64 octets;

	if (place >= SHADOW_CLASSES || !work)
		return;
	counts = bpf_map_lookup_elem(&links_counters, &place);
	if (!counts)
		return;
	octets = skb->len + (frames - 1) * SHADOW_HEADERS;
	counts->packets++;
	counts->octets += octets;
	if (!charge_virtual_queue(work, octets + (__u64)frames * links_settings.overhead, links_settings.queue[place & (SHADOW_CLASSES - 1)],
			 links_settings.priority[place & (SHADOW_CLASSES - 1)]))
		counts->dropped++;
}

#endif
