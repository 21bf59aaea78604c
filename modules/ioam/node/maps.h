/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* BPF maps, per-packet state, and their accessors. */
#ifndef WEIR_IOAM_MAPS_H
#define WEIR_IOAM_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../bpf/match_packet.h"
#include "ioam.h"

#define WORD_MASK (IOAM_WORDS - 1)
#define IOAM_OCTETS (IOAM_WORDS * 4)
#define OCTET_MASK (IOAM_OCTETS - 1)
#define OPTION_IMMUTABLE 0x11 /* types of IPv6 options with IOAM (RFC 9486) */
#define OPTION_MUTABLE 0x31
#define DONE 255  /* loop callback: stop; 0: next round; others are parser errors */
#define MAX_DEFERRED 4   /* options per packet processed after the parser accepted all */
#define MAX_HEADERS 8 /* extension headers read per packet */

/* Result of a prefix lookup for a destination: scope + 1, or 0. */
struct ioam_cached_scope {
	__u64 address[2];
	__u32 scope;
	__u32 valid; /* 0: empty entry */
};

#define CACHED_SCOPES 64  /* destinations; a power of two */
#define CACHED_INTERFACES 8    /* a power of two */
#define CACHED_NAMESPACES 16 /* a power of two */

/* Cached copy of an ioam_interfaces entry, or of its absence. */
struct ioam_cached_interface {
	__u32 index; /* 0: empty entry */
	__u32 configured;    /* 0: not in ioam_interfaces */
	__u32 id;
	__u32 wide;
	__u32 roles;
	__u32 mtu;
	__u32 l2;
	__u32 pad;
};

/* Cached fields of an ioam_namespaces entry that every trace needs, or its absence. */
struct ioam_cached_namespace {
	__u32 key; /* namespace + 1; 0: empty entry */
	__u32 configured;
	__u32 flags;
	__u32 data;
	__u32 schema;
	__u32 opaque; /* words of opaque state */
	__u64 wide_data;
};

#define POSTCARD_WORDS 64 /* words of a postcard */
#define POSTCARD_MASK (POSTCARD_WORDS - 1)

/* An options header that a packet has already. */
struct existing {
	__u16 size;  /* bytes; 0 without one */
	__u8 cover;  /* bytes of its start to overwrite: 0, or 8 of padding */
	__u8 clear;  /* one byte of padding remains behind them */
	__u8 behind; /* next header field */
};

/* A packet before the insertion. */
struct insertion {
	__u32 length;         /* bytes of the IPv6 packet */
	__u16 payload;        /* payload length field of the IPv6 header; 0 in BIG TCP packets */
	__u16 moved;          /* bytes of hop in front of new Destination options */
	__u16 upper;          /* packet offset of the upper layer; 0 in later fragments */
	struct existing hop;
	struct existing last; /* Destination header behind it, if the options need one */
	__u8 l2;
	__u8 next;
	__u8 protocol;        /* upper layer */
};

struct ioam_work {
	struct ioam_record record; /* directly before in: one record for export */
	struct ioam_buffer in;     /* extension headers of the packet */
	struct ioam_record card;   /* directly before out: one record for export */
	__u32 out[POSTCARD_WORDS];           /* postcard data */
	__u32 ended[IOAM_WORDS / 32]; /* bitmap: words of in with an option that ends here */
	/*
	 * Loop state. The body of each loop is a global function, which the verifier checks once.
	 */
	__u32 at;
	__u32 end;
	__u32 to;
	__u32 padding;
	__u32 header;  /* index + 1 of the header being parsed */
	__u32 headers;
	__u32 start[MAX_HEADERS];
	__u32 stop[MAX_HEADERS];
	__u32 type[MAX_HEADERS];
	__s64 ahead;               /* UTC minus monotonic time, ns */
	__u64 second;              /* last second stored by stamp(), since 1970, and its start in ns */
	__u64 second_began;
	__u64 ahead_until;         /* monotonic time of the next clock comparison */
	__u32 l2;
	__u32 total;               /* bytes of the extension headers read */
	__u32 next;                /* type of the header behind them */
	__u32 upper;               /* packet offset of the flow's upper layer; 0 in later fragments */
	__u32 payload;             /* payload length field of the IPv6 header */
	__u32 ending;              /* options that end here */
	__u32 kept;                /* options that stay, and Routing headers */
	__u32 options;             /* IOAM options */
	__u32 deferred_count;
	__u32 deferred[MAX_DEFERRED];        /* kind, word of in, words of data: 8, 16 and 8 bits */
	__u32 proof;               /* as in struct ioam_record */
	__u32 strict;              /* the packet needs a valid proof */
	__u32 dirty;
	__u32 active;              /* some trace has the active flag */
	__u32 seconds;             /* node data, host byte order */
	__u32 fraction;
	__u32 delay;
	__u32 queue;
	__u32 hop_limit;
	__u32 from;                /* ifindex of the receiving interface; 0 for local packets */
	__u32 ingress, egress;
	__u32 wide_ingress, wide_egress;
	__u32 at_exit;             /* set on ingress: only options that end here are recorded */
	__u32 sampled;
	__u64 postcards_filled;              /* token bucket of postcards */
	__u64 flags_filled;        /* token bucket of flagged bytes */
	__u32 postcard_tokens;
	__u32 flag_tokens;
	__u32 selected[2];           /* deciding scopes */
	struct insertion place;
	__u32 moved;                 /* of place */
	__u32 destination;           /* of struct ioam_encap */
	struct ioam_edge_key key;
	struct ioam_edge_received fresh; /* zeros, except its sequence numbers */
	struct ioam_context context; /* of the parsed request */
	struct ioam_context carried; /* of the packet's socket */
	struct ioam_cached_namespace carrier;   /* namespace entry with the socket's context as opaque state */
	__u64 now;                 /* monotonic time of sample() */
	/* Caches of map lookups, valid for one generation of the settings. */
	__u32 generation;
	__u32 pad2;
	struct ioam_cached_interface interfaces[CACHED_INTERFACES];
	struct ioam_cached_namespace namespaces[CACHED_NAMESPACES];
	struct ioam_cached_scope scopes[CACHED_SCOPES];
	__u64 address[2];          /* off the stack, which is short without a JIT compiler */
	__u64 fib[8];              /* struct bpf_fib_lookup */
	struct match_prefix remote;
	struct ioam_path path;     /* to store */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ioam_work);
} ioam_works SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ioam_settings);
} ioam_node SEC(".maps");

/* By ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, IOAM_INTERFACES);
	__type(key, __u32);
	__type(value, struct ioam_interface);
} ioam_interfaces SEC(".maps");

/* By Namespace-ID. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, IOAM_NAMESPACES);
	__type(key, __u32);
	__type(value, struct ioam_namespace);
} ioam_namespaces SEC(".maps");

/* By Namespace-ID << 1 and the lowest bit of ids; made with the namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * IOAM_NAMESPACES);
	__type(key, __u32);
	__type(value, struct ioam_proof_window);
} ioam_proofs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ioam_scope);
} ioam_scopes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ioam_scope_counts);
} ioam_scope_counted SEC(".maps");

/* By number, from 1. An update uses free numbers, so no packet reads a partial entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * IOAM_ENCAPS + 1);
	__type(key, __u32);
	__type(value, struct ioam_encap);
} ioam_encaps SEC(".maps");

/* By encapsulation number. Programs fill in a copy. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * IOAM_ENCAPS + 1);
	__type(key, __u32);
	__type(value, struct ioam_template);
} ioam_templates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, IOAM_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} ioam_counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct ioam_edge_key);
	__type(value, struct ioam_edge_sent);
} ioam_edges_sent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct ioam_edge_key);
	__type(value, struct ioam_edge_received);
} ioam_edges_received SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct ioam_edge_key);
	__type(value, struct ioam_context);
} ioam_contexts SEC(".maps");

/* By destination, or end of a tunnel. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 512);
	__type(key, __u64[2]);
	__type(value, struct ioam_path);
} ioam_paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} ioam_records SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&ioam_counted, &what);

	if (n)
		(*n)++;
}

static __always_inline struct ioam_work *work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&ioam_works, &zero);
}

static __always_inline struct ioam_settings *settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&ioam_node, &zero);
}

/*
 * Bound a value for the verifier of Linux 6.1: bounded() below a power of two, bounded_length()
 * from 1 to a power of two. That verifier ignores comparisons with 0 and xor, and forgets bounds of
 * copied registers.
 */
static __always_inline __u32 bounded(__u32 power, __u32 number)
{
	asm volatile("" : "+r"(number));
	number &= power - 1;
	asm volatile("" : "+r"(number));
	return number;
}

static __always_inline __u32 bounded_length(__u32 power, __u32 length)
{
	return bounded(power, length - 1) + 1;
}

static __always_inline __u8 octet(const struct ioam_buffer *b, __u32 at)
{
	return ((const __u8 *)b->words)[at & OCTET_MASK];
}

static __always_inline void put_octet(struct ioam_buffer *b, __u32 at, __u8 value)
{
	((__u8 *)b->words)[at & OCTET_MASK] = value;
}

static __always_inline __u32 word(const struct ioam_buffer *b, __u32 at)
{
	return bpf_ntohl(b->words[at & WORD_MASK]);
}

/* Forces the sum into one register: the verifier tracks copies of a pointer separately. */
#define AT_OFFSET(data, l2)                     \
	({                                   \
		__u8 *at = (data) + (l2);    \
		asm volatile("" : "+r"(at)); \
		at;                          \
	})

#endif /* WEIR_IOAM_MAPS_H */
