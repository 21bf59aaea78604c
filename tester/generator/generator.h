/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared by the generator's program and Go. Times are ns since the program's first frame slot
 * unless noted.
 */
#ifndef WEIR_GENERATOR_H
#define WEIR_GENERATOR_H

#define GENERATOR_STREAMS 4096
#define GENERATOR_INDEX_BITS 12     /* low bits of a heap key: index of the stream in plans */
#define GENERATOR_HEAP (4096 + 4)   /* keys; unused ones are GENERATOR_NEVER */
#define GENERATOR_NEVER (~0ULL >> 1) /* the difference of two keys has a sign */
#define GENERATOR_HEAD 80           /* octets of a frame that are rewritten each time */
#define GENERATOR_SHORT 60          /* the same for the shortest frames */
#define GENERATOR_FIELDS 4
#define GENERATOR_CYCLE 64
#define GENERATOR_SIZES 8
#define GENERATOR_BUCKETS HIST_BUCKETS_FOR(36) /* below 68 s; the last bucket takes all longer times */

enum ended {
	ENDED_NOT,
	ENDED_SCHEDULE, /* all streams have sent their frames */
	ENDED_FRAMES,   /* the frame limit */
	ENDED_DURATION,
};

enum action {
	ACTION_INCREMENT,
	ACTION_DECREMENT,
	ACTION_RANDOM,
};

/* outline is a template: one size of one stream. */
struct outline {
	__u16 length;      /* octets without FCS */
	__u16 stamp;       /* offset; 0 is none */
	__u16 udp_sum;     /* frame.Template's sums */
	__u16 network_sum;
	__u16 udp;         /* offset */
	__u16 network;     /* offset of the IPv4 header; 0 for IPv6 */
	__u16 odd;         /* the stamp starts at an odd octet of the datagram */
	__u16 unused;
	__u8 head[GENERATOR_HEAD];
};

/* field is frame.Field. */
struct field {
	__u64 repetitions;
	__u64 seed;
	__u32 mask, network_mask, udp_mask;
	enum action action;
	__u16 offset;
	__u8 odd;
	__u8 unused[5];
};

/* plan is one stream to send. */
struct plan {
	__u64 period;      /* between bursts, and between frames without bursts; 0 is no pace */
	__u64 frames;      /* 0 is no limit */
	__u64 start;
	__u32 outline;     /* first outline */
	__u32 burst;       /* frames, 1 at least */
	__u16 id;
	__u8 cycle_length;
	__u8 fields;
	__u32 unused;
	__u8 cycle[GENERATOR_CYCLE]; /* outlines, relative to the first */
	struct field field[GENERATOR_FIELDS];
};

/* turn is the state of a stream's modifier field. */
struct turn {
	__u64 step;     /* number of values before this one */
	__u64 repeated; /* frames sent with this value */
	__u32 value;    /* under the mask */
	__u32 unused;
};

/* progress is the state of a stream. */
struct progress {
	__u64 frames, wire_bytes, payload_bytes;
	__u64 late, skipped;
	__u64 first, last; /* CLOCK_MONOTONIC */
	__u32 position;    /* in the cycle */
	__u32 burst;       /* frames sent of the current burst */
	struct turn turn[GENERATOR_FIELDS];
};

/*
 * heap holds the paced streams: due << GENERATOR_INDEX_BITS | index, smallest first, four children
 * per node.
 */
struct heap {
	__u64 keys[GENERATOR_HEAP];
};

/* rounds holds the streams without a pace, served round robin. */
struct rounds {
	__u32 size, at;
	__u16 streams[GENERATOR_STREAMS];
};

/* account is the total of the schedule. */
struct account {
	__u64 started; /* CLOCK_MONOTONIC; 0 before */
	__u64 frames;
	__u64 lateness_min, lateness_max, lateness_sum, lateness_count;
	enum ended ended;
	__u32 current; /* sequential: the stream being sent */
};

struct lateness {
	__u64 buckets[GENERATOR_BUCKETS];
};

struct generator_settings {
	__u64 duration;
	__u64 max_frames; /* 0 is no limit */
	__u64 late_after;
	__u64 tolerance;  /* of skip: frames late by less are still sent */
	__s64 tai;        /* ns to add to CLOCK_MONOTONIC for TAI */
	__u32 streams;
	__u32 length;     /* octets of the frames that the kernel passes in */
	__u16 restore[GENERATOR_SIZES]; /* offsets of the stamps of shorter frames, which longer ones must not carry */
	__u8 restores;
	__u8 skip;        /* skip late frames instead of catching up */
	__u8 space;       /* shift all later frames instead */
	__u8 sequential;
	__u8 spin;        /* wait inside the program for the due time */
	__u8 unused[3];
};

#endif /* WEIR_GENERATOR_H */
