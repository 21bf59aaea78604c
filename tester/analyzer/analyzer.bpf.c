//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The analyzer judges every stamped frame that arrives at a device.
 *
 * A frame is stamped if it is a UDP datagram whose last 18 octets carry a possible time (within 388 days of now). A frame of
 * an announced stream whose UDP checksum is wrong is a payload error: nothing in it can be trusted, so its sequence number
 * is as good as lost. Any other frame of an announced stream has a sequence number s, compared with the next expected one:
 *
 *      |<----- window: the 128 blocks of 64 numbers up to the highest ----->|
 *   ---+----------------------------------+---+---------------+-------------+------+--------> s
 *  out of window      seen: duplicate      not seen: reordered            next    next + gap
 *                                          (was counted as lost)        in order    a loss, so far
 *
 * The extent of a reordered frame (RFC 4737 section 4.2.1) is its distance, in unique frames, to the earliest arrival with a
 * larger number. That one raised the highest number when it came, a "record"; records arrive in the order of their numbers,
 * so it is the record with the smallest number above s, found by a search in the window's record bits.
 *
 * A device with one queue has one NAPI context, which is the only writer. With several, a spin lock per stream orders them.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "histogram.h"
#include "packet.h"
#include "stamp.h"
#include "checksum.h"
#include "analyzer.h"

#define YEAR_IN_SECONDS (1LL << 25) /* 388 days */
#define CHUNK 256
#define CHUNKS 37 /* 37 * 256 > 9216 */
#define WIRE_OVERHEAD 24 /* FCS, preamble, delimiter, gap */

const volatile struct analyzer_settings settings;

/* slots: stream id -> 1 + its place in the maps below; 0 for a stream that was not announced */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ANALYZER_STREAMS);
	__type(key, __u32);
	__type(value, __u32);
} slots SEC(".maps");

/* streams: slot -> counters */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ANALYZER_STREAMS);
	__type(key, __u32);
	__type(value, struct stream_counts);
} streams SEC(".maps");

/* windows: slot -> what has arrived lately */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ANALYZER_STREAMS);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

/* times: slot -> one-way delays and |IPDV| */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ANALYZER_STREAMS);
	__type(key, __u32);
	__type(value, struct time_buckets);
} times SEC(".maps");

/* port: what belongs to no stream, per CPU */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port_counts);
} port SEC(".maps");

/* recent: the last frames of each CPU */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ANALYZER_RECENT);
	__type(key, __u32);
	__type(value, struct captured);
} recent SEC(".maps");

/* recorders: where in recent each CPU is */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct recorder);
} recorders SEC(".maps");

/* captures: frames around errors, for user space */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} captures SEC(".maps");

/* SUM_WORDS - adds the 32-bit words of size octets at p if so many are asked for: the verifier wants to know each size. */
#define SUM_WORDS(size)                                        \
	if (left & (size)) {                                   \
		if (p + (size) > end)                          \
			return -1;                             \
		_Pragma("unroll") for (int i = 0; i < (size); i += 4) \
			sum += *(__u32 *)(p + i);              \
		p += (size);                                   \
	}

/*
 * datagram_sum - ones' complement sum of `place >> 16` octets from offset `place & 0xffff`, in the CPU's byte order, in 32
 * bits; negative if they leave the linear part. A function of its own, so that the verifier looks at it once.
 */
__noinline __s64 datagram_sum(struct xdp_md *ctx, __u32 place)
{
	__u32 offset = place & 0xffff, left = place >> 16;
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *p;
	__u64 sum = 0;

	if (offset > 256)
		return -1;
	p = data + offset;
	for (int i = 0; i < CHUNKS && left >= CHUNK; i++) {
		if (p + CHUNK > end)
			return -1;
		sum = (__u32)bpf_csum_diff(0, 0, (__be32 *)p, CHUNK, (__u32)sum);
		p += CHUNK;
		left -= CHUNK;
	}
	SUM_WORDS(128)
	SUM_WORDS(64)
	SUM_WORDS(32)
	SUM_WORDS(16)
	SUM_WORDS(8)
	SUM_WORDS(4)
	if (left & 2) {
		if (p + 2 > end)
			return -1;
		sum += *(__u16 *)p;
		p += 2;
	}
	if (left & 1) {
		if (p + 1 > end)
			return -1;
		sum += *p; /* the octet behind it counts as 0 */
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (__u32)((sum & 0xffffffff) + (sum >> 32));
}

/* scattered_sum - the same for a frame in several buffers. */
__noinline __s64 scattered_sum(struct xdp_md *ctx, __u32 place)
{
	__u32 offset = place & 0xffff, left = place >> 16, part;
	__u32 buffer[CHUNK / 4];
	__s64 sum = 0;

	for (int i = 0; i < CHUNKS && left >= CHUNK; i++) {
		if (bpf_xdp_load_bytes(ctx, offset, buffer, CHUNK))
			return -1;
		sum = bpf_csum_diff(0, 0, buffer, CHUNK, (__u32)sum);
		offset += CHUNK;
		left -= CHUNK;
	}
	if (left == 0)
		return sum;
	__builtin_memset(buffer, 0, sizeof(buffer));
	part = left & (CHUNK - 1);
	if (part == 0 || bpf_xdp_load_bytes(ctx, offset, buffer, part))
		return -1;
	return bpf_csum_diff(0, 0, buffer, CHUNK, (__u32)sum);
}

/* intact - whether the datagram's UDP checksum is right, or absent (IPv4). */
static __always_inline int intact(struct xdp_md *ctx, const struct datagram *d)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 addresses = d->ip6 ? 8 : 12, size = d->ip6 ? 32 : 8;
	__u32 start, sum;
	__s64 part;
	__u8 *udp = data + (d->udp & 0xff);

	if (udp + PACKET_UDP > end)
		return 0;
	if (!d->ip6 && *(__u16 *)(udp + 6) == 0)
		return 1;
	start = d->ip + addresses;
	/* the addresses lie right in front of the UDP header unless IPv4 has options */
	if (start + size != d->udp) {
		__s64 options = datagram_sum(ctx, start | size << 16);

		if (options < 0)
			return 0;
		part = datagram_sum(ctx, d->udp | d->length << 16);
		if (part < 0)
			part = scattered_sum(ctx, d->udp | d->length << 16);
		if (part < 0)
			return 0;
		sum = checksum_fold((__u32)options) + checksum_fold((__u32)part);
	} else {
		part = datagram_sum(ctx, start | (size + d->length) << 16);
		if (part < 0)
			part = scattered_sum(ctx, start | (size + d->length) << 16);
		if (part < 0)
			return 0;
		sum = checksum_fold((__u32)part);
	}
	sum += bpf_htons(PACKET_PROTOCOL_UDP) + bpf_htons((__u16)d->length);
	return checksum_fold(sum) == 0xffff;
}

/* extent - distance in unique frames from the next one to the record with the smallest number above s. */
static __always_inline __u64 extent(struct window *w, const struct stream_counts *c, __u64 s)
{
	__u64 block = s / 64, bits;

	bits = w->blocks[block % ANALYZER_BLOCKS].record;
	bits &= ~0ULL << (s % 64); /* s itself is no record */
	for (int i = 0; i < ANALYZER_BLOCKS && !bits; i++) {
		block++;
		bits = w->blocks[block % ANALYZER_BLOCKS].record;
	}
	if (!bits)
		return 0;
	return (__u16)((__u16)c->unique - w->blocks[block % ANALYZER_BLOCKS].arrivals[hist_log2(bits & -bits) & 63]);
}

/* advance - empties the blocks that the window gains when s becomes the highest sequence number. */
static __always_inline void advance(struct window *w, __u64 next, __u64 s)
{
	__u64 block = (next + 63) / 64, last = s / 64; /* the first block not yet begun, the block of s */

	if (block + ANALYZER_BLOCKS <= last)
		block = last - ANALYZER_BLOCKS + 1;
	for (int i = 0; i < ANALYZER_BLOCKS && block <= last; i++, block++) {
		w->blocks[block % ANALYZER_BLOCKS].seen = 0;
		w->blocks[block % ANALYZER_BLOCKS].record = 0;
	}
}

/* judge - accounts for the sequence number s; the reason tells what was found, REASON_CONTEXT that all is well. */
static __always_inline enum reason judge(struct stream_counts *c, struct window *w, __u64 s, __u64 now)
{
	struct window_block *block = &w->blocks[s / 64 % ANALYZER_BLOCKS];
	enum reason reason = REASON_CONTEXT;
	__u64 bit = 1ULL << (s % 64), next = c->next, distance;

	if (s != next) {
		c->sequence_errors++;
		c->error_expected = next;
		c->error_got = s;
		c->error_at = now;
	}
	if (s >= next) {
		if (s > next)
			reason = REASON_GAP;
		advance(w, next, s);
		block->seen |= bit;
		block->record |= bit;
		block->arrivals[s % 64] = (__u16)c->unique;
		c->next = s + 1;
		c->unique++;
		return reason;
	}
	if (s / 64 + ANALYZER_BLOCKS <= (next - 1) / 64) {
		c->out_of_window++;
		return REASON_OUT_OF_WINDOW;
	}
	if (block->seen & bit) {
		c->duplicates++;
		return REASON_DUPLICATE;
	}
	distance = extent(w, c, s);
	if (distance > c->max_extent)
		c->max_extent = distance;
	block->seen |= bit;
	c->reordered++;
	c->unique++;
	return REASON_REORDERED;
}

/* measured says which histograms a frame counts in. */
struct measured {
	__u64 delay, variation;
	__u32 has_delay, has_variation;
};

/* clock - accounts for the time a unique frame took: transit may be negative where two clocks differ. */
static __always_inline void clock(struct stream_counts *c, __s64 transit, struct measured *m)
{
	m->has_delay = transit >= 0;
	m->has_variation = c->unique > 1;
	if (transit >= 0) {
		m->delay = (__u64)transit;
		c->delay_sum += m->delay;
		c->delay_latest = m->delay;
		if (c->unique - c->negative_delays == 1 || m->delay < c->delay_min)
			c->delay_min = m->delay;
		if (m->delay > c->delay_max)
			c->delay_max = m->delay;
	} else {
		c->negative_delays++;
	}
	if (m->has_variation) {
		m->variation = transit > c->transit ? (__u64)(transit - c->transit) : (__u64)(c->transit - transit);
		c->variation_sum += m->variation;
		if (c->unique == 2 || m->variation < c->variation_min)
			c->variation_min = m->variation;
		if (m->variation > c->variation_max)
			c->variation_max = m->variation;
	}
	c->transit = transit;
}

static __always_inline void count(__u64 *bucket)
{
	if (settings.parallel)
		__sync_fetch_and_add(bucket, 1);
	else
		(*bucket)++;
}

/* emit - hands one frame of the ring to user space. */
static __always_inline void emit(struct captured *frame)
{
	__u32 zero = 0;
	struct port_counts *p;

	if (frame->length && bpf_ringbuf_output(&captures, frame, sizeof(*frame), 0)) {
		p = bpf_map_lookup_elem(&port, &zero);
		if (p)
			p->uncaptured++;
	}
	frame->length = 0; /* once is enough */
}

/* record - keeps the frame in the ring, and captures it if it is in error or close to one that was. */
static __always_inline void record(struct xdp_md *ctx, const struct stamp *s, enum reason reason, __u64 now, __u32 length)
{
	__u32 zero = 0, at, kept = length < ANALYZER_SNAP ? length : ANALYZER_SNAP;
	struct recorder *recorder = bpf_map_lookup_elem(&recorders, &zero);
	struct captured *frame;

	if (!recorder)
		return;
	at = (__u32)recorder->next % ANALYZER_RECENT;
	frame = bpf_map_lookup_elem(&recent, &at);
	if (!frame || kept == 0)
		return;
	recorder->next++;
	frame->at = now;
	frame->sequence = s->sequence;
	frame->stream = s->stream;
	frame->reason = reason;
	frame->length = length;
	frame->kept = kept;
	if (bpf_xdp_load_bytes(ctx, 0, frame->data, kept))
		frame->kept = 0;
	if (reason == REASON_CONTEXT) {
		if (recorder->after) {
			recorder->after--;
			emit(frame);
		}
		return;
	}
	recorder->after = ANALYZER_AFTER;
	for (__u32 i = 0; i <= ANALYZER_BEFORE; i++) {
		at = (__u32)(recorder->next + ANALYZER_RECENT - 1 - ANALYZER_BEFORE + i) % ANALYZER_RECENT;
		frame = bpf_map_lookup_elem(&recent, &at);
		if (frame)
			emit(frame);
	}
}

static __always_inline int foreign(__u32 length, int unknown)
{
	__u32 zero = 0;
	struct port_counts *p = bpf_map_lookup_elem(&port, &zero);

	if (p && unknown) {
		p->unknown++;
	} else if (p) {
		p->foreign++;
		p->foreign_bytes += length + 4;
	}
	return XDP_PASS;
}

/* find - the stamp of a frame; 0 if it has none. */
static __always_inline int find(struct xdp_md *ctx, struct datagram *d, struct stamp *s, __u64 tai)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *p;
	__u32 offset;
	__s64 age;

	if (!packet_datagram(d, data, end) || d->length < PACKET_UDP + STAMP_SIZE)
		return 0;
	offset = d->udp + d->length - STAMP_SIZE;
	if (offset > 0x7fff)
		return 0;
	p = data + offset;
	if (p + STAMP_SIZE <= end) {
		stamp_read(s, p);
	} else if (!stamp_load(s, ctx, offset)) {
		return 0;
	}
	age = (__s64)(tai - s->time);
	if (age < 0)
		age = -age;
	return s->valid && age < YEAR_IN_SECONDS * (__s64)STAMP_SECOND;
}

SEC("xdp.frags")
int analyze(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns(), tai = now + settings.tai;
	struct stream_counts *c;
	struct time_buckets *t;
	struct measured measured = {};
	enum reason reason;
	struct datagram d;
	struct stamp s;
	struct window *w;
	__u32 length, *slot, key;
	int whole;

	length = (__u32)(ctx->data_end - ctx->data);
	if (!find(ctx, &d, &s, tai))
		return foreign(length, 0);
	slot = bpf_map_lookup_elem(&slots, &s.stream);
	if (!slot || !*slot)
		return foreign(length, 1);
	key = *slot - 1;
	c = bpf_map_lookup_elem(&streams, &key);
	w = bpf_map_lookup_elem(&windows, &key);
	t = bpf_map_lookup_elem(&times, &key);
	if (!c || !w || !t)
		return foreign(length, 1);
	if (d.udp + d.length > length) /* in several buffers, and stamped frames carry no trailer */
		length = d.udp + d.length;
	whole = intact(ctx, &d);

	if (settings.parallel)
		bpf_spin_lock(&c->lock);
	if (c->received++ == 0)
		c->first = now;
	c->last = now;
	c->wire_bytes += length + WIRE_OVERHEAD;
	c->payload_bytes += d.length - PACKET_UDP;
	if (whole) {
		reason = judge(c, w, s.sequence, now);
		if (reason == REASON_CONTEXT || reason == REASON_GAP || reason == REASON_REORDERED)
			clock(c, (__s64)(tai - s.time), &measured);
	} else {
		reason = REASON_PAYLOAD;
		c->payload_errors++;
		c->corrupt_got = s.sequence;
		c->corrupt_at = now;
	}
	if (settings.parallel)
		bpf_spin_unlock(&c->lock);

	if (measured.has_delay)
		count(&t->buckets[hist_index(measured.delay, ANALYZER_BUCKETS)].delay);
	if (measured.has_variation)
		count(&t->buckets[hist_index(measured.variation, ANALYZER_BUCKETS)].variation);
	if (settings.capture)
		record(ctx, &s, reason, now, length);
	return settings.pass ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
