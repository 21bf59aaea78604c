/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the analyzer's program and Go share. Times are CLOCK_MONOTONIC in ns unless said otherwise. */
#ifndef WEIR_ANALYZER_H
#define WEIR_ANALYZER_H

#define ANALYZER_STREAMS 4096
#define ANALYZER_BLOCKS 128                   /* of 64 sequence numbers each */
#define ANALYZER_WINDOW (ANALYZER_BLOCKS * 64) /* sequence numbers */
#define ANALYZER_BUCKETS HIST_BUCKETS_FOR(36)  /* below 68 s; what lies above is in the last one */
#define ANALYZER_SNAP 256                      /* octets kept of a captured frame */
#define ANALYZER_RECENT 32                     /* frames kept before an error, per CPU */
#define ANALYZER_BEFORE 16                     /* of which so many are captured */
#define ANALYZER_AFTER 16                      /* and so many after it */

enum reason {
	REASON_CONTEXT,   /* a frame beside one in error */
	REASON_GAP,       /* sequence numbers were left out before this one */
	REASON_REORDERED, /* below the next expected sequence number, seen for the first time */
	REASON_DUPLICATE,
	REASON_OUT_OF_WINDOW,
	REASON_PAYLOAD, /* the UDP checksum is wrong */
};

/* stream_counts is one stream's account; tester.Counts says what each means. */
struct stream_counts {
	struct bpf_spin_lock lock;
	__u32 started; /* 1 once transit holds a value */
	__u64 received, wire_bytes, payload_bytes;
	__u64 unique, duplicates, reordered, max_extent, out_of_window;
	__u64 payload_errors, sequence_errors;
	__u64 next; /* the next expected sequence number */
	__u64 delay_sum, delay_min, delay_max, delay_latest, negative_delays;
	__s64 transit; /* ns between stamp and arrival of the last frame */
	__u64 variation_sum, variation_max, variations;
	__u64 variation_min;
	__u64 first, last; /* arrivals */
	__u64 error_expected, error_got, error_at;
	__u64 corrupt_got, corrupt_at;
};

/* window_block says which of 64 sequence numbers have arrived, and which of them as the highest so far. */
struct window_block {
	__u64 seen, record;
};

struct window {
	struct window_block blocks[ANALYZER_BLOCKS];
	__u16 arrivals[ANALYZER_WINDOW]; /* of records: count of unique frames before them, modulo 2^16 */
};

struct histogram {
	__u64 buckets[ANALYZER_BUCKETS];
};

/* port_counts is what is counted of frames that belong to no announced stream. */
struct port_counts {
	__u64 foreign, foreign_bytes; /* bytes include the FCS */
	__u64 unknown;
	__u64 uncaptured; /* frames the capture had no room for */
};

struct captured {
	__u64 at;
	__u64 sequence;
	__u32 stream;
	enum reason reason;
	__u32 length; /* octets of the frame without FCS */
	__u32 kept;   /* octets in data */
	__u8 data[ANALYZER_SNAP];
};

/* recorder is the position in the ring of recent frames. */
struct recorder {
	__u64 next;  /* frames put into the ring */
	__u64 after; /* frames still to be captured after an error */
};

struct analyzer_settings {
	__s64 tai;     /* ns to add to CLOCK_MONOTONIC for TAI */
	__u8 pass;     /* hand stamped frames on instead of dropping them */
	__u8 capture;  /* keep recent frames and capture those around an error */
	__u8 parallel; /* the device has several queues: frames of a stream may arrive on two CPUs at once */
	__u8 unused[5];
};

#endif /* WEIR_ANALYZER_H */
