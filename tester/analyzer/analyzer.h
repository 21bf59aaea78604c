/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types shared by the analyzer's program and Go. Times are CLOCK_MONOTONIC in ns unless noted. */
#ifndef WEIR_ANALYZER_H
#define WEIR_ANALYZER_H

#define ANALYZER_STREAMS 4096
#define ANALYZER_BLOCKS 128                   /* window, in blocks of 64 sequence numbers */
#define ANALYZER_BUCKETS HIST_BUCKETS_FOR(36)  /* below 68 s; the last bucket takes all longer times */
#define ANALYZER_EARLY 16                      /* transits that choose the base of a stream with a remote clock */
#define ANALYZER_SNAP 256                      /* octets kept of a captured frame */
#define ANALYZER_RECENT 32                     /* frames kept before an error, per CPU */
#define ANALYZER_BEFORE 16                     /* frames captured before an error */
#define ANALYZER_AFTER 16                      /* frames captured after an error */

enum reason {
	REASON_CONTEXT,   /* a frame beside one in error */
	REASON_GAP,       /* sequence numbers were skipped before this one */
	REASON_REORDERED, /* below the next expected sequence number, first arrival */
	REASON_DUPLICATE,
	REASON_OUT_OF_WINDOW,
	REASON_PAYLOAD, /* wrong UDP checksum */
	REASON_HEADER,  /* wrong IPv4 header checksum */
	REASON_RESTART, /* number below the expected one, time later than every number so far */
	REASON_MISNUMBERED, /* the previous frame had a wrong number */
};

/*
 * stream_counts is one stream's account; tester.Counts defines the fields. Fields written for every
 * frame come first: with thousands of streams each cache line counts.
 */
struct stream_counts {
	struct bpf_spin_lock lock;
	__u32 unused;
	__u64 received, wire_bytes, payload_bytes;
	__u64 unique;
	__u64 next; /* next expected sequence number */
	__u64 last; /* arrival */
	__u64 newest; /* stamp of the highest sequence number */
	__s64 transit; /* ns between stamp and arrival of the last unique frame */
	__u64 delay_sum; /* modulo 2^64: transits between two clocks may be large, their distances from the base are not */
	__s64 delay_min, delay_max;
	__s64 base;  /* subtracted before the histogram: 0 with one clock, the smallest early transit with two */
	__u64 timed; /* frames with a measured transit */
	__u64 alone; /* the last unique frame left a gap before it */
	__u64 variation_sum;
	__u64 variation_min, variation_max;
	__u64 first; /* arrival */
	__u64 duplicates, reordered, max_extent, out_of_window;
	__u64 payload_errors, header_errors, sequence_errors, negative_delays;
	__u64 gap_from; /* the number expected at the last gap */
	__u64 restarts, misnumbered;
	__u64 earlier, earlier_lost; /* unique and lost frames before the last restart */
	__u64 error_expected, error_got, error_at;
	__u64 corrupt_got, corrupt_at;
	__s64 early[ANALYZER_EARLY]; /* with two clocks: the first transits, which choose the base */
	__u64 padding[2]; /* an odd number of cache lines */
};

/* window_block is 64 consecutive sequence numbers. */
struct window_block {
	__u64 seen;   /* arrived */
	__u64 record; /* arrived as the highest so far */
	__u16 arrivals[64]; /* of records: count of unique frames before them, modulo 2^16 */
};

struct window {
	struct window_block blocks[ANALYZER_BLOCKS];
	__u64 padding[8]; /* an odd number of cache lines, so that the same block of all streams spreads over cache sets */
};

/*
 * time_bucket is one bucket of one stream's histograms of delay and |IPDV|. The map is ordered by
 * bucket, then by stream: streams with similar delays share pages, which matters with thousands of
 * streams.
 */
struct time_bucket {
	__u64 delay, variation;
	__u64 below; /* delays below the base, by their distance from it */
};

/* port_counts counts frames outside announced streams. */
struct port_counts {
	__u64 foreign, foreign_bytes; /* bytes include the FCS */
	__u64 unknown;
	__u64 uncaptured; /* frames that did not fit the capture */
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
	__u64 after; /* frames still to capture after an error */
};

struct analyzer_settings {
	__s64 tai;     /* ns to add to CLOCK_MONOTONIC for TAI */
	__u32 streams; /* number of slots */
	__u8 pass;     /* pass stamped frames on instead of dropping them */
	__u8 capture;  /* keep recent frames and capture those around an error */
	__u8 parallel; /* several queues: frames of a stream may arrive on two CPUs at once */
	__u8 relative; /* remote sender clock: delays count from a base per stream */
};

#endif /* WEIR_ANALYZER_H */
