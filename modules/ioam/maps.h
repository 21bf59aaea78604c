/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps, and what a program works with while it has a packet. */
#ifndef WEIR_IOAM_MAPS_H
#define WEIR_IOAM_MAPS_H

#define WORD_MASK (IOAM_WORDS - 1)
#define IOAM_OCTETS (IOAM_WORDS * 4)
#define OCTET_MASK (IOAM_OCTETS - 1)
#define DONE 255  /* of a round of a loop: it was the last; 0: go on; others are mistakes */
#define LATER 4   /* options of a packet that are served when all are known to be sound */
#define HEADERS 8 /* extension headers of a packet that are read */

/* The scope that the prefix match had for a destination, from 1; 0 for none. */
struct ioam_known {
	__u64 address[2];
	__u32 scope;
	__u32 is; /* 0: nothing is known */
};

#define KNOWN 64  /* destinations, a power of two */
#define NEAR 8    /* interfaces, as well */
#define SPACES 16 /* and namespaces */

/* What is known of an interface, ... */
struct ioam_near {
	__u32 index; /* 0 for nothing */
	__u32 is;    /* one of the node's */
	__u32 id;
	__u32 wide;
	__u32 roles;
	__u32 mtu;
	__u32 l2;
	__u32 pad;
};

/* ... and of a namespace: what all traces need. */
struct ioam_space {
	__u32 key; /* the namespace and 1; 0 for nothing */
	__u32 is;
	__u32 flags;
	__u32 data;
	__u32 schema;
	__u32 opaque; /* words of state */
	__u64 wide_data;
};

#define TOLD 64 /* words of a postcard */
#define TOLD_MASK (TOLD - 1)

struct ioam_work {
	struct ioam_record record; /* in lies behind it: both are exported as one */
	struct ioam_buffer in;     /* extension headers of the packet */
	struct ioam_record card;   /* and so does out */
	__u32 out[TOLD];           /* a postcard */
	__u32 ended[IOAM_WORDS / 32]; /* words of in at which options begin that end here */
	/*
	 * Places in loops. Each round is a global function, which the verifier walks once, and keeps
	 * what it needs here.
	 */
	__u32 at;
	__u32 end;
	__u32 to;
	__u32 padding;
	__u32 header;  /* that is looked into, from 1 */
	__u32 headers;
	__u32 start[HEADERS];
	__u32 stop[HEADERS];
	__u32 type[HEADERS];
	__s64 ahead;               /* ns that UTC is ahead of the monotonic clock, */
	__u64 second;              /* since 1970 that was told last, and when it began, ns */
	__u64 second_began;
	__u64 ahead_until;         /* looked up again from then on, monotonic */
	__u32 l2;
	__u32 total;               /* octets of extension headers that were read */
	__u32 next;                /* header behind them */
	__u32 upper;               /* octet of the packet where that of the flow begins; 0: in another fragment */
	__u32 payload;             /* octets that the IPv6 header states, of a packet that is described */
	__u32 ending;              /* options that end here */
	__u32 kept;                /* options that do not, and headers of other kinds */
	__u32 options;             /* of IOAM */
	__u32 put_off;
	__u32 later[LATER];        /* kind, word of in, words of data: 8, 16 and 8 bits */
	__u32 proof;               /* as in the record */
	__u32 strict;              /* the packet needs a proof */
	__u32 dirty;
	__u32 active;              /* a trace has that flag */
	__u32 seconds;             /* node data, in the host's order */
	__u32 fraction;
	__u32 delay;
	__u32 queue;
	__u32 hop_limit;
	__u32 from;                /* index of the interface that it came by; 0 for none */
	__u32 ingress, egress;
	__u32 wide_ingress, wide_egress;
	__u32 at_exit;             /* at ingress: only what ends here is recorded */
	__u32 sampled;
	__u64 filled;              /* tokens of postcards, */
	__u64 flags_filled;        /* and of octets with flags */
	__u32 tokens;
	__u32 flag_tokens;
	__u32 chosen[2];           /* scopes that decide */
	struct ioam_edge_key key;
	struct ioam_edge_received fresh; /* zeros but for its numbers */
	struct ioam_context context; /* of the request that is read */
	struct ioam_context carried; /* of the socket that the packet comes from, */
	struct ioam_space carrier;   /* and a namespace with that as its state */
	__u64 now;                 /* monotonic, when the packet was sampled */
	/* What was looked up under these settings: hash tables and tries cost more than the rest. */
	__u32 generation;
	__u32 pad2;
	struct ioam_near near[NEAR];
	struct ioam_space space[SPACES];
	struct ioam_known known[KNOWN];
	__u64 address[2];          /* here, since stacks are short without a JIT compiler; */
	__u64 fib[8];              /* so is what a route is looked up by */
	struct match_prefix remote;
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

/* Interface index to interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, IOAM_INTERFACES);
	__type(key, __u32);
	__type(value, struct ioam_interface);
} ioam_interfaces SEC(".maps");

/* Namespace-ID to namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, IOAM_NAMESPACES);
	__type(key, __u32);
	__type(value, struct ioam_namespace);
} ioam_namespaces SEC(".maps");

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

/* Number of an encapsulation, from 1. Changes take a number that is not in use. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * IOAM_ENCAPS + 1);
	__type(key, __u32);
	__type(value, struct ioam_encap);
} ioam_encaps SEC(".maps");

/* Its headers: filled in in a copy. */
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
 * A number below a power of two, and a length from 1 to one, in a register of which the verifier of
 * Linux 6.1 knows that: it learns nothing of a comparison with 0, of ^, nor of a comparison that
 * another register with the same number was in.
 */
static __always_inline __u32 below(__u32 power, __u32 number)
{
	asm volatile("" : "+r"(number));
	number &= power - 1;
	asm volatile("" : "+r"(number));
	return number;
}

static __always_inline __u32 upto(__u32 power, __u32 length)
{
	return below(power, length - 1) + 1;
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

/* The sum in one register: the verifier does not know two of the same value as one. */
#define BEHIND(data, l2)                     \
	({                                   \
		__u8 *at = (data) + (l2);    \
		asm volatile("" : "+r"(at)); \
		at;                          \
	})

#endif /* WEIR_IOAM_MAPS_H */
