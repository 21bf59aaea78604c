/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the analyzer's program and Go share. Times are CLOCK_MONOTONIC in ns unless said otherwise.
 */
#ifndef WEIR_ANALYZER_H
#define WEIR_ANALYZER_H

#define ANALYZER_STREAMS 4096
#define ANALYZER_BLOCKS 128                   /* of 64 sequence numbers each: the window */
#define ANALYZER_BUCKETS HIST_BUCKETS_FOR(36)  /* below 68 s; what lies above is in the last one */
#define ANALYZER_EARLY 16                      /* transits that choose the base of a stream whose clock is another one */
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
	REASON_HEADER,  /* the IPv4 header's checksum is wrong */
	REASON_RESTART, /* the number is below the expected one, and the time is later than that of every number so far */
	REASON_MISNUMBERED, /* the frame before this one had a number that was not its own */
};

/*
 * stream_counts is one stream's account; tester.Counts says what each means. What every frame
 * changes comes first: with thousands of streams each line of cache counts.
 */
struct stream_counts {
	struct bpf_spin_lock lock;
	__u32 unused;
	__u64 received, wire_bytes, payload_bytes;
	__u64 unique;
	__u64 next; /* the next expected sequence number */
	__u64 last; /* arrival */
	__u64 newest; /* stamp of the highest sequence number */
	__s64 transit; /* ns between stamp and arrival of the last unique frame */
	__u64 delay_sum; /* modulo 2^64: of two clocks the transits may be large, their distances from the base are not */
	__s64 delay_min, delay_max;
	__s64 base;  /* subtracted before the histogram: 0 with one clock, the least of the early transits with two */
	__u64 timed; /* frames whose transit was taken */
	__u64 alone; /* the last unique frame left a gap in front of it */
	__u64 variation_sum;
	__u64 variation_min, variation_max;
	__u64 first; /* arrival */
	__u64 duplicates, reordered, max_extent, out_of_window;
	__u64 payload_errors, header_errors, sequence_errors, negative_delays;
	__u64 gap_from; /* the number that was expected at the last gap */
	__u64 restarts, misnumbered;
	__u64 earlier, earlier_lost; /* unique and lost frames before the last restart */
	__u64 error_expected, error_got, error_at;
	__u64 corrupt_got, corrupt_at;
	__s64 early[ANALYZER_EARLY]; /* with two clocks: the first transits, which choose the base */
	__u64 padding[2]; /* an odd number of cache lines */
};

/* window_block is about 64 sequence numbers in a row. */
struct window_block {
	__u64 seen;   /* which have arrived */
	__u64 record; /* which of them as the highest so far */
	__u16 arrivals[64]; /* of records: count of unique frames before them, modulo 2^16 */
};

struct window {
	struct window_block blocks[ANALYZER_BLOCKS];
	__u64 padding[8]; /* an odd number of cache lines: the same block of all streams must not fall into the same few sets */
};

/*
 * time_bucket is one bucket of one stream's histograms of delay and |IPDV|. The map is ordered by
 * bucket, then by stream: streams that see the same delays share pages, which matters with
 * thousands of them.
 */
struct time_bucket {
	__u64 delay, variation;
	__u64 below; /* delays below the base, by their distance from it */
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
	__u32 streams; /* slots */
	__u8 pass;     /* hand stamped frames on instead of dropping them */
	__u8 capture;  /* keep recent frames and capture those around an error */
	__u8 parallel; /* the device has several queues: frames of a stream may arrive on two CPUs at once */
	__u8 relative; /* the sender's clock is another one: delays count from a base per stream */
};

#endif /* WEIR_ANALYZER_H */
