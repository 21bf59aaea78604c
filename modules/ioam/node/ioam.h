/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared by Go and the BPF programs. Numbers are in host byte order and lengths in bytes,
 * unless a field states another order or unit.
 */
#ifndef WEIR_IOAM_H
#define WEIR_IOAM_H

#include <linux/bpf.h>

enum ioam_bounds {
	IOAM_WORDS = 1024,     /* 32-bit words of a buffer: two headers of maximum length */
	IOAM_TEMPLATE = 512,   /* words of the headers of an encapsulation */
	IOAM_OPAQUE = 16,      /* words of opaque state */
	IOAM_ITEMS = 16,       /* options per encapsulation */
	IOAM_ENCAPS = 32,      /* distinct encapsulations */
	IOAM_TLVS = 48,        /* options and paddings parsed per header */
	IOAM_NAMESPACES = 256, /* namespaces of a node */
	IOAM_INTERFACES = 1024,
	IOAM_WINDOW = 64,      /* 64-bit words of a window of proofs: 4096 sequence numbers */
	IOAM_CONTEXT_WORDS = 7, /* words of a trace context in opaque state */
};

/* Socket option for a trace context: level ("WEIR"), name, and value lengths. */
enum ioam_socket_option {
	IOAM_SOCKET_LEVEL = 0x57454952,
	IOAM_SOCKET_CONTEXT = 1,
	IOAM_SOCKET_BINARY = 26, /* bytes of the binary and the text form */
	IOAM_SOCKET_TEXT = 55,
};

/* Allowed directions of packets with IOAM at an interface (bits). */
enum ioam_role {
	IOAM_ROLE_INGRESS = 1, /* record packets with IOAM that arrive here */
	IOAM_ROLE_EGRESS = 2,  /* send packets with IOAM here, and encapsulate */
};

enum ioam_namespace_flag {
	IOAM_REMOVE = 1, /* options end here */
	IOAM_STRICT = 2, /* also drop packets without a valid proof */
	IOAM_LOOPBACK = 4, /* return a copy of packets with the loopback flag */
};

/* Counters of a node. The first ones are also the errors of the option parser. */
enum ioam_count {
	IOAM_GOOD,             /* no error; not counted */
	IOAM_HEADER,           /* parser errors: the packet is dropped */
	IOAM_OPTION,
	IOAM_PADDING,
	IOAM_SHORT,
	IOAM_ODD,
	IOAM_ALIGNMENT,
	IOAM_NODE_LENGTH,
	IOAM_REMAINING,
	IOAM_SEQUENCES,
	IOAM_FIELDS,
	IOAM_MANY,             /* options or header length exceed the parser's limits */
	IOAM_MISTAKES,         /* number of parser errors; not counted */
	IOAM_FROM_OUTSIDE,     /* dropped: IOAM received on an interface without the ingress role */
	IOAM_TO_OUTSIDE,       /* dropped: IOAM sent to an interface without the egress role */
	IOAM_ERROR_CLEARED,    /* ICMPv6 errors sent out of the domain with the quoted IOAM data cleared */
	IOAM_RECORDED,         /* traces with this node's data added */
	IOAM_OVERFLOW,         /* traces without space: overflow flag set */
	IOAM_FULL,             /* traces received with the overflow flag */
	IOAM_UNKNOWN,          /* options of unknown namespaces */
	IOAM_UNSUPPORTED,      /* options of unsupported types */
	IOAM_REMOVED,          /* packets with options removed */
	IOAM_EXPORTED,         /* exported records */
	IOAM_RING_FULL,        /* records lost in a full ring buffer */
	IOAM_LIMITED,          /* postcards above the rate limit */
	IOAM_PROVEN,           /* valid proofs */
	IOAM_DISPROVEN,        /* invalid proofs */
	IOAM_REPLAYED,         /* valid proofs that were received before, or are too old */
	IOAM_UNPROVEN,         /* packets dropped without a valid proof */
	IOAM_EDGES,            /* edge-to-edge options at their end */
	IOAM_LOOPED,           /* copies returned to the source */
	IOAM_LOOP_LIMITED,     /* copies above the rate limit */
	IOAM_RETURNED,         /* returned copies of this node's packets, consumed */
	IOAM_ACTIVE,           /* traces with the active flag */
	IOAM_TERMINATED,       /* active packets dropped at the end of their options */
	IOAM_CONTEXT,          /* requests with a trace context */
	IOAM_CARRIED,          /* packets that carry the trace context of their socket */
	IOAM_FAILED,           /* changes rejected by the kernel */
	IOAM_COUNTS,
};

enum ioam_clock {
	IOAM_POSIX = 0, /* fraction in microseconds, as in Linux */
	IOAM_PTP = 1,   /* fraction in nanoseconds */
	IOAM_NTP = 2,   /* fraction in 2^-32 s; seconds since 1900 */
};

struct ioam_settings {
	__u64 wide_id;    /* 56 bits */
	__u32 id;         /* 24 bits */
	__u32 clock;      /* enum ioam_clock */
	__s64 tai_offset; /* TAI minus UTC, ns */
	__u32 kinds;      /* bits of enum match_kind */
	__u32 removes;    /* some namespace has IOAM_REMOVE */
	__u32 filled;     /* 1 after the first complete write */
	__u32 postcards;  /* maximum per second and CPU; 0 disables them */
	__u32 generation; /* incremented by each change; invalidates the caches of the programs */
	__u32 loops;      /* some namespace has IOAM_LOOPBACK */
	__u32 flagged;    /* maximum of flagged and returned bytes per second and CPU */
	__u32 contexts;   /* parse trace contexts of HTTP requests */
	__u32 schema;     /* 24 bits: schema of opaque state that is a socket's trace context */
	__u32 sockets;    /* epoch of valid socket contexts; 0 disables them */
	__u64 address[2]; /* this node's, network byte order: source of copies and tunnels */
};

struct ioam_interface {
	__u32 id;    /* 16 bits */
	__u32 wide;
	__u32 roles; /* enum ioam_role */
	__u32 mtu;   /* device MTU */
	__u32 l2;    /* bytes of the link-layer header */
	__u32 mtu_before; /* net.ipv6.conf.DEV.mtu before and after lowering; 0 if unchanged */
	__u32 mtu_set;
	__u32 pad;
};

/*
 * One profile of proof of transit. lagrange is in Montgomery form with radix 2^64, so its product
 * with a plain number is plain.
 */
struct ioam_proof {
	__u64 prime;    /* odd, below 2^62; 0 without a profile */
	__u64 inverse;  /* -prime^-1 modulo 2^64 */
	__u64 share;    /* this node's share of the secret and the public polynomial */
	__u64 lagrange; /* this node's Lagrange coefficient, Montgomery form */
	__u64 secret;   /* the verifier's secret; ~0 on other nodes */
	__u64 mask_in;  /* shared with the previous node; 0 on the first */
	__u64 mask_out; /* shared with the next node; 0 on the last */
};

/*
 * Sequence numbers of a namespace's proofs, for one profile. They are bits 1 to 63 of the ids.
 * sent is that of the first node, for both profiles; the verifier uses the rest.
 */
struct ioam_proof_window {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 prime;             /* of the profile: another one starts a new window */
	__u64 sent;              /* next sequence number */
	__u64 highest;           /* received */
	__u64 seen[IOAM_WINDOW]; /* ring of bits, up to highest */
};

struct ioam_namespace {
	__u64 wide_data;
	__u32 data;
	__u32 flags;                /* enum ioam_namespace_flag */
	__u32 schema;               /* 24 bits */
	__u32 opaque;               /* words of opaque state */
	__u32 state[IOAM_OPAQUE];   /* network byte order */
	struct ioam_proof proof[2]; /* selected by the lowest bit of the packet's id */
};

enum ioam_item_kind {
	IOAM_TRACE = 0,
	IOAM_CARRIER = 1, /* a trace with a socket's trace context as the first node's opaque state */
	IOAM_PROOF = 2,
	IOAM_EDGE = 3,
	IOAM_EXPORT = 4,
};

/* Fields that the program fills in for one option of an encapsulation. */
struct ioam_item {
	__u16 at;   /* word of the template: the node's data, or the first field */
	__u16 namespace;
	__u32 type; /* Trace-Type, E2E-Type or Extension-Flags */
	__u32 kind; /* enum ioam_item_kind */
};

/* Flags in the first word of a trace (RFC 9197 section 4.4.1, RFC 9322). */
enum ioam_flag {
	IOAM_FLAG_OVERFLOW = 8 << 7,
	IOAM_FLAG_LOOPBACK = 4 << 7,
	IOAM_FLAG_ACTIVE = 2 << 7,
};

/* An encapsulation. Its headers are in ioam_templates. */
struct ioam_encap {
	__u32 hop;         /* bytes of the Hop-by-Hop header; 0 without one */
	__u32 destination; /* bytes of the Destination Options header behind it; 0 without one */
	__u32 items;
	__u32 flows;       /* some item counts packets per flow */
	__u32 flags;       /* trace flags: IOAM_FLAG_LOOPBACK, IOAM_FLAG_ACTIVE */
	__u32 tunnel;      /* add an outer IPv6 header, from this node ... */
	__u64 exit[2];     /* ... to this address, network byte order */
	struct ioam_item item[IOAM_ITEMS];
};

enum ioam_sampling {
	IOAM_COUNT = 0,  /* k of n packets */
	IOAM_CHANCE = 1, /* each packet with probability k / 2^32 */
	IOAM_FLOWS = 2,  /* all packets of k / 2^32 of the flows */
};

/* Encapsulation settings of a scope. */
struct ioam_scope {
	__u32 encap;    /* encapsulation number, from 1; 0 without one */
	__u32 carrier;  /* encapsulation number for packets with a socket context; 0 without one */
	__u32 sampling; /* enum ioam_sampling */
	__u32 k, n;
	__u32 shadow;
	__u32 protocol; /* 0 for any */
	__u32 dscp;     /* DSCP + 64; 0 for any */
	__u32 port;     /* source or destination port; 0 for any */
	__u32 flow;     /* some of the fields below are set */
	__u16 source_port, destination_port; /* 0 for any */
	__u64 source[2], source_mask[2];     /* network byte order; a zero mask for any */
};

struct ioam_scope_counts {
	__u64 packets;      /* packets as sent by the stack */
	__u64 octets;
	__u64 encapsulated; /* with options; in shadow mode, matching packets */
	__u64 too_long;     /* unchanged: longer than the MTU with options */
	__u64 no_room;      /* unchanged: extension headers without space */
	__u64 jumbo;        /* unchanged: no payload length */
	__u64 unflagged;    /* unchanged: packets that may not have the loopback flag */
	__u64 failed;       /* unchanged: rejected by the kernel */
	__u64 limited;      /* unchanged: above the rate limit of flags */
	__u64 turn;         /* packet count for k of n */
};

enum ioam_record_kind {
	IOAM_RECORD_EXIT = 1,     /* headers of a packet with options removed here */
	IOAM_RECORD_POSTCARD = 2, /* data of the export option and of this node */
	IOAM_RECORD_LOOPED = 3,   /* headers of a copy returned to this node */
	IOAM_RECORD_CONTEXT = 128, /* bit: struct ioam_context follows the headers */
};

/* A ring buffer record. header bytes of headers follow. */
struct ioam_record {
	__u64 time;            /* ns since 1970, UTC */
	__u8 source[16];
	__u8 destination[16];
	__u32 flow_label;
	__u32 interface;       /* ifindex */
	__u32 length;          /* bytes of the received IPv6 packet */
	__u16 header;          /* bytes of headers behind the record */
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 kind;             /* enum ioam_record_kind */
	__u8 proof;            /* 1: valid, 2: invalid, 3: replayed */
	__u8 next_header;      /* type of the first header behind the record */
};

/* A flow of edge-to-edge options, at either end. */
struct ioam_edge_key {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u16 namespace;
	__u8 protocol;
	__u8 pad;
};

struct ioam_edge_sent {
	__u64 sequence; /* of the next packet */
};

struct ioam_edge_received {
	__u64 first;     /* sequence number of the first packet */
	__u64 highest;
	__u64 packets;
	__u64 reordered; /* sequence numbers below the highest */
	__u64 restarts;  /* restarts of the sender's sequence */
	__u64 stamped;   /* packets with a timestamp */
	__s64 delay;     /* ns, sum over stamped packets */
	__s64 delay_min;
	__s64 delay_max;
	__u64 last;      /* ns since 1970 */
};

/* W3C trace context of a request. Opaque state holds its first IOAM_CONTEXT_WORDS words. */
struct ioam_context {
	__u8 version;
	__u8 trace[16];
	__u8 parent[8];
	__u8 flags;
	__u8 pad[6];
};

/* Trace context of a socket. */
struct ioam_socket {
	struct bpf_spin_lock lock;
	__u32 epoch; /* compared with ioam_settings.sockets; 0 without a context */
	struct ioam_context context;
};

struct ioam_buffer {
	__u32 words[IOAM_WORDS];
};

/* MTU of the path to a destination, from a Packet Too Big that left no space for options. */
struct ioam_path {
	__u64 until; /* monotonic ns */
	__u32 mtu;
	__u32 pad;
};

/* The headers of an encapsulation before the fields are filled in. */
struct ioam_template {
	__u64 longs[IOAM_TEMPLATE / 2];
};

#endif /* WEIR_IOAM_H */
