//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One direction of a link. A frame's fate and departure time are decided when it arrives, and the
 * kernel's fq keeps it until then:
 *
 *   near end, ingress: edt_decide -> [far end, egress: edt_stamp -> fq] -> far host
 *
 *   edt_decide: virtual queue (drop at the tail, mark) -> wire at the rate -> loss -> damage ->
 *               delay, jitter -> departure time, and a copy of the frame with it
 *   edt_stamp:  departure time -> skb->tstamp, for any EtherType
 *
 * The queue is served in order at a constant rate, so one number describes it: the time at which
 * the wire becomes free. A ring of the waiting frames' start times makes its limits exact. The link
 * carries a copy of the frame, and the original is freed at once: otherwise TCP small queues would
 * limit the sender by the frames in the link, unlike on a real path.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/ecn.h"
#include "edt.h"

char edt_license[] SEC("license") = "Dual BSD/GPL";

#define ETHERNET_HEADER 14
#define VLAN_TAG 4
#define BY_LINK 0x57656972 /* in cb: the frame has a departure time */

const volatile struct edt_config edt;

/* State of the direction. Go gives the ring its length. */
struct edt_state {
	struct bpf_spin_lock lock;
	__u32 fraction;  /* of free_ns, in 2^-EDT_TIME_SHIFT ns */
	__u64 random;
	__u64 now_ns;    /* latest arrival */
	__u64 free_ns;   /* end of the current frame on the wire */
	__u64 last_ns;   /* latest departure */
	__u64 queued;    /* bytes queued so far */
	__u32 head, tail; /* of the ring */
	__u32 frames;    /* towards every_nth */
	__u32 bad;       /* state of the losses */
	struct edt_waiter ring[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct edt_state);
} edt_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct edt_counters);
} edt_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct edt_depths);
} edt_depth SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct edt_shape);
} edt_shapes SEC(".maps");

enum fate { PASS, QUEUE_DROP, LOSS_DROP };

struct decision {
	enum fate fate;
	__u32 mark, duplicate, damage, reordered;
	__u32 bit; /* after the Ethernet header */
	__u64 at_ns;
};

/* xorshift64* (Vigna 2016). */
static __always_inline __u32 draw(struct edt_state *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 2685821657736338717ULL >> 32;
}

/* Draws only if p is above 0. */
static __always_inline int chance(struct edt_state *s, __u64 p)
{
	return p && draw(s) < p;
}

#define WAITER(s, i) ((s)->ring[(i) & edt.ring_mask])

/* Removes the frames that have started serialization from the ring. */
static __always_inline void advance(struct edt_state *s, __u64 now)
{
	__u32 low = s->head, count = s->tail - low;

	if (s->free_ns <= now) {
		s->head = s->tail;
		return;
	}
	for (int i = 0; i < EDT_SEARCH && count; i++) {
		__u32 half = count >> 1;

		if (WAITER(s, low + half).start_ns <= now) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	s->head = low;
}

static __always_inline __u64 waiting(struct edt_state *s)
{
	return s->head == s->tail ? 0 : s->queued - WAITER(s, s->head).before;
}

/* Queues a frame; returns the end of its serialization, or 0 if the queue is full. */
static __always_inline __u64 accept(struct edt_state *s, __u64 now, __u32 octets, __u32 *mark)
{
	__u64 wire = (octets + edt.overhead) * edt.octet_time;

	if (!edt.octet_time)
		return now;
	advance(s, now);
	if (s->free_ns > now) {
		__u64 before = waiting(s);
		__u32 count = s->tail - s->head;

		if (count > edt.ring_mask || (edt.limit_packets && count >= edt.limit_packets) ||
		    (edt.limit_octets && before + octets > edt.limit_octets))
			return 0;
		*mark = edt.mark_octets && before > edt.mark_octets;
		WAITER(s, s->tail).start_ns = s->free_ns;
		WAITER(s, s->tail).before = s->queued;
		s->tail++;
		s->queued += octets;
		wire += s->fraction;
	} else {
		s->free_ns = now;
	}
	s->fraction = wire & ((1 << EDT_TIME_SHIFT) - 1);
	s->free_ns += wire >> EDT_TIME_SHIFT;
	return s->free_ns;
}

static __always_inline int lost(struct edt_state *s)
{
	if (edt.every_nth) {
		if (++s->frames < edt.every_nth)
			return 0;
		s->frames = 0;
		return 1;
	}
	if (s->bad)
		s->bad = !chance(s, edt.to_good);
	else
		s->bad = chance(s, edt.to_bad);
	return chance(s, s->bad ? edt.lost_bad : edt.lost_good);
}

/* The delay after the wire, from the quantiles of its distribution. */
static __always_inline __u64 propagation(struct edt_state *s, const struct edt_shape *shape)
{
	__s64 delay = edt.delay_ns;

	if (edt.jitter_ns) {
		__u32 r = draw(s), i = r >> 20 & (EDT_QUANTILES - 1);
		__s64 low = shape->quantile[i], high = shape->quantile[i + 1];

		delay += (__s64)edt.jitter_ns * (low + ((high - low) * (r >> 4 & 0xffff) >> 16)) >> EDT_QUANTILE_SHIFT;
	}
	return delay > 0 ? delay : 0;
}

static __always_inline void decide(struct edt_state *s, const struct edt_shape *shape, __u64 now, __u32 octets, struct decision *d)
{
	__u64 free = accept(s, now, octets, &d->mark);

	if (!free) {
		d->fate = QUEUE_DROP;
		return;
	}
	if (lost(s)) {
		d->fate = LOSS_DROP;
		return;
	}
	if (octets > ETHERNET_HEADER && chance(s, edt.corrupt)) {
		d->damage = 1;
		d->bit = draw(s) % (8 * (octets - ETHERNET_HEADER));
	}
	d->duplicate = chance(s, edt.duplicate);
	d->at_ns = free;
	if (chance(s, edt.reorder)) {
		d->reordered = 1;
		return;
	}
	d->at_ns += propagation(s, shape);
	if (edt.keep_order) {
		if (d->at_ns < s->last_ns)
			d->at_ns = s->last_ns;
		s->last_ns = d->at_ns;
	}
}

/* Requires the lock. */
static __always_inline void account(const struct decision *d, struct edt_counters *count, __u32 octets)
{
	count->received++;
	count->received_octets += octets;
	count->queue_drops += d->fate == QUEUE_DROP;
	count->loss_drops += d->fate == LOSS_DROP;
	count->duplicated += d->duplicate;
	count->reordered += d->reordered;
	count->corrupted += d->damage;
}

static __always_inline void gauge(struct edt_state *s, struct edt_depths *depths, __u64 now)
{
	__u64 octets = waiting(s), bin;

	if (depths->max_octets < octets)
		depths->max_octets = octets;
	if (now < depths->began_ns)
		return;
	bin = (now - depths->began_ns) / EDT_DEPTH_NS;
	asm volatile("" : "+r"(bin)); /* Linux 6.1's verifier needs the compared register */
	if (bin < EDT_DEPTHS && depths->octets[bin] < octets)
		depths->octets[bin] = octets;
}

static __always_inline void damage(struct __sk_buff *skb, __u32 bit)
{
	__u32 at = ETHERNET_HEADER + bit / 8;
	__u8 octet;

	if (bpf_skb_load_bytes(skb, at, &octet, 1))
		return;
	octet ^= 0x80 >> (bit & 7);
	bpf_skb_store_bytes(skb, at, &octet, 1, 0);
}

static __always_inline void copy(struct __sk_buff *skb, struct edt_counters *count)
{
	if (bpf_clone_redirect(skb, edt.target, 0) < 0)
		__sync_fetch_and_add(&count->failed, 1);
}

SEC("tc")
int edt_decide(struct __sk_buff *skb)
{
	__u32 zero = 0, octets = skb->len + (skb->vlan_present ? VLAN_TAG : 0);
	struct edt_state *s = bpf_map_lookup_elem(&edt_states, &zero);
	struct edt_counters *count = bpf_map_lookup_elem(&edt_counts, &zero);
	struct edt_depths *depths = bpf_map_lookup_elem(&edt_depth, &zero);
	struct edt_shape *shape = bpf_map_lookup_elem(&edt_shapes, &zero);
	__u64 now = bpf_ktime_get_ns();
	struct decision d = {};

	if (!s || !count || !depths || !shape)
		return TC_ACT_SHOT;
	bpf_spin_lock(&s->lock);
	if (now < s->now_ns) /* another CPU was faster */
		now = s->now_ns;
	s->now_ns = now;
	decide(s, shape, now, octets, &d);
	account(&d, count, octets);
	gauge(s, depths, now);
	bpf_spin_unlock(&s->lock);
	if (d.fate != PASS)
		return TC_ACT_STOLEN; /* SHOT would count as a drop */
	/* TCP still shares the payload; marking needs a private copy. */
	if (d.mark && !bpf_skb_pull_data(skb, 0) && ecn_mark(skb))
		__sync_fetch_and_add(&count->marked, 1);
	if (d.damage)
		damage(skb, d.bit);
	skb->cb[0] = d.at_ns;
	skb->cb[1] = d.at_ns >> 32;
	skb->cb[2] = BY_LINK;
	copy(skb, count);
	if (d.duplicate)
		copy(skb, count);
	return TC_ACT_STOLEN;
}

SEC("tc")
int edt_stamp(struct __sk_buff *skb)
{
	if (skb->cb[2] != BY_LINK) {
		__u32 zero = 0;
		struct edt_counters *count = bpf_map_lookup_elem(&edt_counts, &zero);

		if (count)
			__sync_fetch_and_add(&count->foreign, 1);
		return TC_ACT_SHOT;
	}
	skb->cb[2] = 0;
	skb->tstamp = skb->cb[0] | (__u64)skb->cb[1] << 32;
	return TC_ACT_OK;
}
