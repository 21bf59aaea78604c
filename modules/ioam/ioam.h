/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What Go and the programs tell each other. Numbers are in the host's byte order unless they say
 * so; lengths are octets unless they say so.
 */
#ifndef WEIR_IOAM_H
#define WEIR_IOAM_H

enum ioam_bounds {
	IOAM_WORDS = 1024,     /* of 4 octets in a buffer: two headers of the greatest length */
	IOAM_TEMPLATE = 512,   /* words of an encapsulation's headers */
	IOAM_OPAQUE = 16,      /* words of opaque state */
	IOAM_ITEMS = 16,       /* options that one encapsulation adds */
	IOAM_ENCAPS = 32,      /* different encapsulations at a time */
	IOAM_TLVS = 48,        /* options and paddings of a header that are looked at */
	IOAM_NAMESPACES = 256, /* that a node knows */
	IOAM_INTERFACES = 1024,
	IOAM_CONTEXT_WORDS = 7, /* of an application's context in opaque state */
};

/* The option of sockets that takes a trace context: setsockopt's level, "WEIR", and its name. */
enum ioam_socket_option {
	IOAM_SOCKET_LEVEL = 0x57454952,
	IOAM_SOCKET_CONTEXT = 1,
	IOAM_SOCKET_BINARY = 26, /* octets of its forms */
	IOAM_SOCKET_TEXT = 55,
};

/* What an interface lets pass (bits). */
enum ioam_role {
	IOAM_ROLE_INGRESS = 1, /* packets with IOAM come in, and are recorded */
	IOAM_ROLE_EGRESS = 2,  /* packets with IOAM go out, and are encapsulated */
};

enum ioam_namespace_flag {
	IOAM_REMOVE = 1, /* its options end here */
	IOAM_STRICT = 2, /* and packets without a valid proof too */
	IOAM_LOOPBACK = 4, /* packets whose trace asks for it are sent back */
};

/* What becomes of a packet, and what is wrong with options; the counters of a node. */
enum ioam_count {
	IOAM_GOOD,             /* none: no mistake */
	IOAM_HEADER,           /* mistakes: the packet is dropped */
	IOAM_OPTION,
	IOAM_PADDING,
	IOAM_SHORT,
	IOAM_ODD,
	IOAM_ALIGNMENT,
	IOAM_NODE_LENGTH,
	IOAM_REMAINING,
	IOAM_SEQUENCES,
	IOAM_FIELDS,
	IOAM_MANY,             /* more options, or longer headers, than are looked at */
	IOAM_MISTAKES,         /* none: how many there are */
	IOAM_FROM_OUTSIDE,     /* dropped: IOAM at an interface that is not ingress */
	IOAM_TO_OUTSIDE,       /* dropped: IOAM at an interface that is not egress */
	IOAM_ERROR_CLEARED,    /* ICMPv6 errors to the outside whose quotation of IOAM was cleared */
	IOAM_RECORDED,         /* traces that got this node's data */
	IOAM_OVERFLOW,         /* traces without room: the flag was set */
	IOAM_FULL,             /* traces whose flag was set before */
	IOAM_UNKNOWN,          /* options of a namespace that the node does not know */
	IOAM_UNSUPPORTED,      /* options of a type that the node does not serve */
	IOAM_REMOVED,          /* packets whose options ended here */
	IOAM_EXPORTED,         /* records */
	IOAM_RING_FULL,        /* records for which the ring buffer had no room */
	IOAM_LIMITED,          /* postcards beyond the limit of their rate */
	IOAM_PROVEN,           /* proofs that hold */
	IOAM_DISPROVEN,        /* proofs that do not */
	IOAM_UNPROVEN,         /* packets dropped for that */
	IOAM_EDGES,            /* edge-to-edge options that ended here */
	IOAM_LOOPED,           /* copies that were sent back */
	IOAM_LOOP_LIMITED,     /* copies beyond the limit of their rate */
	IOAM_RETURNED,         /* copies of this node's own packets that came back, and ended here */
	IOAM_ACTIVE,           /* traces with the flag Active */
	IOAM_TERMINATED,       /* packets dropped for it where their options ended */
	IOAM_CONTEXT,          /* requests whose trace context was read */
	IOAM_CARRIED,          /* packets that carry the trace context of their socket */
	IOAM_FAILED,           /* what the kernel refused */
	IOAM_COUNTS,
};

enum ioam_clock {
	IOAM_POSIX = 0, /* fraction in microseconds, as Linux has it */
	IOAM_PTP = 1,   /* in nanoseconds */
	IOAM_NTP = 2,   /* in 2^-32 s, and seconds since 1900 */
};

struct ioam_settings {
	__u64 wide_id;    /* 56 bits */
	__u32 id;         /* 24 bits */
	__u32 clock;      /* enum ioam_clock */
	__s64 tai_offset; /* ns that TAI is ahead of UTC here */
	__u32 kinds;      /* enum match_kind */
	__u32 removes;    /* some namespace ends here */
	__u32 filled;     /* everything was set at least once */
	__u32 postcards;  /* a second and processor at most; 0 for none */
	__u32 generation; /* counts changes: what was looked up in one is not known in another */
	__u32 loops;      /* some namespace has Loopback */
	__u32 flagged;    /* octets a second and processor that are flagged or sent back at most */
	__u32 contexts;   /* whether trace contexts of applications are looked for in requests */
	__u32 schema;     /* 24 bits: of opaque state that is the context of a socket */
	__u32 sockets;    /* epoch of contexts of sockets that are told; 0: none are */
	__u64 address[2]; /* this node's, network byte order: of copies and tunnels */
};

struct ioam_interface {
	__u32 id;    /* 16 bits */
	__u32 wide;
	__u32 roles; /* enum ioam_role */
	__u32 mtu;   /* of the device */
	__u32 l2;    /* octets before the IPv6 header */
	__u32 mtu_before; /* net.ipv6.conf.DEV.mtu before and after it was lowered; 0: it was not */
	__u32 mtu_set;
	__u32 pad;
};

/*
 * One profile of proof of transit. Products are of Montgomery's kind with the radix 2^64: lagrange
 * is in that form, so that a product of it with a plain number is plain.
 */
struct ioam_proof {
	__u64 prime;    /* odd, below 2^62; 0 for no profile */
	__u64 inverse;  /* -prime^-1 modulo 2^64 */
	__u64 share;    /* this node's, of the secret polynomial and the public one */
	__u64 lagrange; /* this node's coefficient */
	__u64 secret;   /* of the verifier; ~0 for others */
	__u64 mask_in;  /* shared with the node before; 0 for the first */
	__u64 mask_out; /* shared with the node behind; 0 for the last */
};

struct ioam_namespace {
	__u64 wide_data;
	__u32 data;
	__u32 flags;                /* enum ioam_namespace_flag */
	__u32 schema;               /* 24 bits */
	__u32 opaque;               /* words of state */
	__u32 state[IOAM_OPAQUE];   /* network byte order */
	struct ioam_proof proof[2]; /* by the lowest bit of the packet's id */
};

enum ioam_item_kind {
	IOAM_TRACE = 0,
	IOAM_CARRIER = 1, /* a trace whose first node's opaque state is the context of a socket */
	IOAM_PROOF = 2,
	IOAM_EDGE = 3,
	IOAM_EXPORT = 4,
};

/* What is to be filled in of an option that an encapsulation adds. */
struct ioam_item {
	__u16 at;   /* word of the template: the node's data, or the first field */
	__u16 namespace;
	__u32 type; /* Trace-Type, E2E-Type or Extension-Flags */
	__u32 kind; /* enum ioam_item_kind */
};

/* The flags of a trace (RFC 9197 section 4.4.1, RFC 9322), as in its first word. */
enum ioam_flag {
	IOAM_FLAG_OVERFLOW = 8 << 7,
	IOAM_FLAG_LOOPBACK = 4 << 7,
	IOAM_FLAG_ACTIVE = 2 << 7,
};

/* An encapsulation; its headers are in ioam_templates. */
struct ioam_encap {
	__u32 hop;         /* octets of the Hop-by-Hop header; 0 for none */
	__u32 destination; /* of the Destination Options header behind it; 0 for none */
	__u32 items;
	__u32 flows;       /* whether some item counts packets of flows */
	__u32 flags;       /* of its traces: IOAM_FLAG_LOOPBACK, IOAM_FLAG_ACTIVE */
	__u32 tunnel;      /* whether packets are put into IPv6 of this node's own, ... */
	__u64 exit[2];     /* ... which goes there; network byte order */
	struct ioam_item item[IOAM_ITEMS];
};

enum ioam_sampling {
	IOAM_COUNT = 0,  /* k of n packets */
	IOAM_CHANCE = 1, /* with a probability of k in 2^32 */
	IOAM_FLOWS = 2,  /* all packets of that share of the flows */
};

/* What is done to the packets of a scope. */
struct ioam_scope {
	__u32 encap;    /* number of the encapsulation, from 1; 0 for none */
	__u32 carrier;  /* of that for packets whose socket has a trace context; 0 for none */
	__u32 sampling; /* enum ioam_sampling */
	__u32 k, n;
	__u32 shadow;
	__u32 protocol; /* 0 for any */
	__u32 dscp;     /* that packets must have and 64; 0 for any */
	__u32 port;     /* of either end; 0 for any */
	__u32 flow;     /* whether any of the below is asked for */
	__u16 source_port, destination_port; /* 0 for any */
	__u64 source[2], source_mask[2];     /* network byte order; a mask of zeros for any */
};

struct ioam_scope_counts {
	__u64 packets;      /* as the stack hands them over */
	__u64 octets;
	__u64 encapsulated; /* in shadow: would be */
	__u64 too_long;     /* left alone: longer than the device's MTU with the options */
	__u64 no_room;      /* left alone: their headers have no place for the options */
	__u64 failed;       /* left alone: the kernel refused */
	__u64 limited;      /* left alone: beyond the limit of packets with flags */
	__u64 turn;         /* packets told, for k of n */
};

enum ioam_record_kind {
	IOAM_RECORD_EXIT = 1,     /* headers of a packet whose IOAM ended here */
	IOAM_RECORD_POSTCARD = 2, /* the export option's data and this node's */
	IOAM_RECORD_LOOPED = 3,   /* headers of a copy that was sent back to this node */
	IOAM_RECORD_CONTEXT = 128, /* a bit: struct ioam_context follows the headers */
};

/* What is told of a packet through the ring buffer; the octets of header follow. */
struct ioam_record {
	__u64 time;            /* ns since 1970, UTC */
	__u8 source[16];
	__u8 destination[16];
	__u32 flow_label;
	__u32 interface;       /* index */
	__u32 length;          /* of the IPv6 packet as it came */
	__u16 header;          /* octets that follow */
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 traffic_class;
	__u8 hop_limit;
	__u8 kind;             /* enum ioam_record_kind */
	__u8 proof;            /* 1: holds, 2: does not hold */
	__u8 next_header;      /* type of the first header that follows */
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
	__u64 first;     /* sequence numbers: of the first packet */
	__u64 highest;
	__u64 packets;
	__u64 reordered; /* below the highest */
	__u64 restarts;  /* the sender began anew */
	__u64 stamped;   /* packets with a time */
	__s64 delay;     /* ns, of all that are stamped */
	__s64 shortest;
	__s64 longest;
	__u64 last;      /* ns since 1970 */
};

/*
 * What an application says of a request (W3C Trace Context), as in its header field. As opaque
 * state it is cut to IOAM_CONTEXT_WORDS.
 */
struct ioam_context {
	__u8 version;
	__u8 trace[16];
	__u8 parent[8];
	__u8 flags;
	__u8 pad[6];
};

/* What an application has said of what it sends on a socket. */
struct ioam_socket {
	struct bpf_spin_lock lock;
	__u32 epoch; /* in which it was said; 0: nothing is said */
	struct ioam_context context;
};

struct ioam_buffer {
	__u32 words[IOAM_WORDS];
};

/* The headers of an encapsulation, without what is filled in. */
struct ioam_template {
	__u64 longs[IOAM_TEMPLATE / 2];
};

#endif /* WEIR_IOAM_H */
