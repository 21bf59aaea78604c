/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the classes of a link would do, without doing it: the work that waits at the link's rate is
 * kept for each priority, as a server without memory for weights would have it.
 *
 *   waits[p] falls with the link's rate, and grows with packets of the priorities 0 to p
 *   a packet of priority p would be dropped where waits[p] is more than its class's queue holds
 *
 * Weights are left out: a class within its weight would be served earlier than this says.
 *
 * Include it after classify.bpf.c's helpers.
 */
#ifndef WEIR_LINKS_SHADOW_H
#define WEIR_LINKS_SHADOW_H

#define SHADOW_CLASSES 32
#define SHADOW_PRIORITIES 8
#define SHADOW_FIRST 0x10	     /* minor number of the first class */
#define SHADOW_SCALE 24		     /* work is counted in 2^-24 octets */
#define SHADOW_LONGEST 10000000000ULL /* nanoseconds that are looked back */
#define SHADOW_HEADERS 54	     /* octets of a segment's own headers, about */

/* What the program is told; it is set when it is loaded. */
struct links_told {
	__u64 rate;		      /* octets in 2^24 ns */
	__u32 overhead;		      /* octets of a frame that the host does not see */
	__u32 fallback;		      /* place of best effort's class */
	__u64 queue[SHADOW_CLASSES];  /* octets */
	__u32 priority[SHADOW_CLASSES];
};

/* The work that waits, of the link. */
struct links_work {
	struct bpf_spin_lock lock;
	__u64 last; /* nanoseconds */
	__u64 waits[SHADOW_PRIORITIES];
};

/* What would have become of a class's packets. */
struct links_counts {
	__u64 packets; /* super-packets as one */
	__u64 octets;  /* with the link layer's headers */
	__u64 dropped; /* would have had no room */
};

const volatile struct links_told links_told;

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct links_work);
} links_work SEC(".maps");

/* Place of a class to its counts. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SHADOW_CLASSES);
	__type(key, __u32);
	__type(value, struct links_counts);
} links_counters SEC(".maps");

/* Adds a packet to the work; whether there would be room. */
static __always_inline int shadow_room(struct links_work *work, __u64 octets, __u64 queue, __u32 priority)
{
	__u64 now = bpf_ktime_get_ns(), elapsed, done, own = 0;
	int fits;

	bpf_spin_lock(&work->lock);
	elapsed = now > work->last ? now - work->last : 0;
	if (elapsed > SHADOW_LONGEST)
		elapsed = SHADOW_LONGEST;
	if (now > work->last)
		work->last = now;
	done = elapsed * links_told.rate;
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

static __always_inline void shadow_count(struct __sk_buff *skb, __u32 handle)
{
	__u32 zero = 0, frames = skb->gso_segs ? skb->gso_segs : 1;
	__u32 place = handle ? (handle & 0xffff) - SHADOW_FIRST : links_told.fallback;
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
	if (!shadow_room(work, octets + (__u64)frames * links_told.overhead, links_told.queue[place & (SHADOW_CLASSES - 1)],
			 links_told.priority[place & (SHADOW_CLASSES - 1)]))
		counts->dropped++;
}

#endif
