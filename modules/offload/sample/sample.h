/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where packets go, of a few of them: a packet's destination takes the place of a random other one.
 *
 *     packet --> a random number: 1 of mask + 1 --> a random place of sample_places
 *
 * So the places are at every moment a random sample of the packets before, of which older ones
 * become fewer: half of them are of the last 0.7 * places * (mask + 1) packets. There is nothing to
 * overflow, to lock or to read in time. Two processors that write one place at once may leave an
 * address there of which half is another's.
 */
#ifndef WEIR_OFFLOAD_SAMPLE_H
#define WEIR_OFFLOAD_SAMPLE_H

#include <linux/types.h>

enum sample_bounds {
	SAMPLE_PLACES = 65536, /* a power of 2, at most 2^16 */
};

/* A destination: of IPv4 as ::ffff:a.b.c.d; all zero for none. */
struct sample_place {
	__u32 word[4]; /* in the order of the network */
};

/* One entry: how many packets are taken, and what a choice by them has come to. */
struct sample_state {
	__u64 mask;    /* of 16 bits; one of mask + 1 packets is taken */
	__u64 budget;  /* prefixes that the table may have */
	__u64 rules;   /* that it has, before they are aggregated */
	__u64 routes;  /* that could be chosen */
	__u64 chosen;
	__u64 traffic; /* packets that the choice was made by */
	__u64 carried; /* of them to routes that are chosen */
};

/* Whether any packet is taken; set when it is loaded. */
const volatile __u32 sample_on = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SAMPLE_PLACES);
	__type(key, __u32);
	__type(value, struct sample_place);
} sample_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_state);
} sample_facts SEC(".maps");

/* Packets that could have been taken. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sample_seen SEC(".maps");

/* The place that a packet's destination is to take; 0 for most. */
static __always_inline struct sample_place *sample(void)
{
	__u32 zero = 0, random, at;
	const struct sample_state *f;
	__u64 *seen;

	if (!sample_on)
		return 0;
	seen = bpf_map_lookup_elem(&sample_seen, &zero);
	if (seen)
		(*seen)++;
	random = bpf_get_prandom_u32();
	f = bpf_map_lookup_elem(&sample_facts, &zero);
	if (!f || (random >> 16) & *(const volatile __u64 *)&f->mask)
		return 0;
	at = random & (SAMPLE_PLACES - 1);
	return bpf_map_lookup_elem(&sample_places, &at);
}

static __always_inline void sample4(__be32 to)
{
	struct sample_place *p = sample();

	if (p)
		*p = (struct sample_place){{0, 0, bpf_htonl(0xffff), to}};
}

static __always_inline void sample6(const __u32 *to)
{
	struct sample_place *p = sample();

	if (p)
		*p = (struct sample_place){{to[0], to[1], to[2], to[3]}};
}

#endif
