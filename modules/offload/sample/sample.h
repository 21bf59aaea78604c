/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples destinations of packets: a sampled destination replaces a random older one.
 *
 *     packet --> a random number: 1 of mask + 1 --> a random slot of sample_places
 *
 * The slots always hold a random sample of the former packets, with fewer of the older ones: half
 * of them are from the last 0.7 * slots * (mask + 1) packets. Nothing overflows, locks or must be
 * read in time. Two CPUs that write one slot at once may mix the halves of two addresses.
 */
#ifndef WEIR_OFFLOAD_SAMPLE_H
#define WEIR_OFFLOAD_SAMPLE_H

#include <linux/types.h>

enum sample_bounds {
	SAMPLE_PLACES = 65536, /* a power of 2, at most 2^16 */
};

/* A destination: of IPv4 as ::ffff:a.b.c.d; all zero for none. */
struct sample_place {
	__u32 word[4]; /* network byte order */
};

/* One entry: sampling rate, and the result of the last selection. */
struct sample_state {
	__u64 mask;    /* 16 bits; one of mask + 1 packets is sampled */
	__u64 budget;  /* maximum number of prefixes of the table */
	__u64 rules;   /* prefixes of the table, before aggregation */
	__u64 routes;  /* candidates */
	__u64 chosen;
	__u64 traffic; /* packets counted for the selection */
	__u64 carried; /* counted packets to selected routes */
};

/* Set before loading if packets are sampled. */
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

/* All packets seen. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sample_seen SEC(".maps");

/* Returns the slot for a packet's destination; 0 for packets that are not sampled. */
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
