//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Classifies every stamped frame that arrives at a device.
 *
 * In a stamped frame the last 18 octets of a UDP datagram hold a plausible time (within 388 days of
 * now). A wrong UDP checksum on a frame of an announced stream is a payload error, a wrong IPv4
 * header checksum a header error. No field of such a frame is trusted: its sequence number counts
 * as lost. Any other frame of an announced stream has a sequence number s, which is compared with
 * the next expected number:
 *
 *      |<----- window: the 128 blocks of 64 numbers up to the highest ----->|
 *   ---+----------------------------------+---+---------------+-------------+------+--------> s
 *  out of window      seen: duplicate      not seen: reordered            next    next + gap
 *                                          (was counted as lost)        in order    a loss, so far
 *
 * Stamps grow with the numbers. A frame with a lower number and a later stamp than the highest one
 * is neither late nor a copy: the sender restarted, two senders use the identifier, or the highest
 * number was wrong (begin_again in judge.h).
 *
 * The extent of a reordered frame (RFC 4737 section 4.2.1) is its distance, in unique frames, to
 * the earliest arrival with a larger number. That arrival was the highest number of its time, a
 * "record". Records arrive in numerical order, so the program searches the window's record bits for
 * the smallest record above s.
 *
 * A device with one queue has one NAPI context, the only writer. With several queues a spin lock
 * per stream serialises the CPUs.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../../bpf/histogram.h"
#include "../../bpf/packet.h"
#include "../../bpf/stamp.h"
#include "../../bpf/checksum.h"
#include "analyzer.h"
#include "verify.h"
#include "judge.h"

#define YEAR_IN_SECONDS (1LL << 25) /* 388 days */
#define WIRE_OVERHEAD 24 /* FCS, preamble, delimiter, gap */

const volatile struct analyzer_settings settings;

/* slots: stream id -> 1 + index in the maps below; 0 for a stream that was not announced */
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

/* windows: slot -> recent arrivals */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ANALYZER_STREAMS);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

/* times: bucket * streams + slot -> number of one-way delays and of |IPDV| in the bucket */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ANALYZER_BUCKETS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct time_bucket);
} times SEC(".maps");

/* port: counters of frames outside announced streams, per CPU */
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

/* recorders: position of each CPU in recent */
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

static __always_inline struct time_bucket *lookup_bucket(__u64 value, __u32 slot)
{
	__u32 key = hist_index(value, ANALYZER_BUCKETS) * settings.streams + slot;

	return bpf_map_lookup_elem(&times, &key);
}

static __always_inline void count(__u64 *counter)
{
	if (settings.parallel)
		__sync_fetch_and_add(counter, 1);
	else
		(*counter)++;
}

/* count_times - adds a frame to its stream's histograms. */
static __always_inline void count_times(const struct measured *m, __u32 slot)
{
	struct time_bucket *b;

	if (m->has_delay) {
		b = lookup_bucket(m->delay, slot);
		if (b)
			count(m->is_below ? &b->below : &b->delay);
	}
	if (m->has_variation) {
		b = lookup_bucket(m->variation, slot);
		if (b)
			count(&b->variation);
	}
}

/* emit - passes one frame of the ring to user space. */
static __always_inline void emit(struct captured *frame)
{
	__u32 zero = 0;
	struct port_counts *p;

	if (frame->length && bpf_ringbuf_output(&captures, frame, sizeof(*frame), 0)) {
		p = bpf_map_lookup_elem(&port, &zero);
		if (p)
			p->uncaptured++;
	}
	frame->length = 0; /* a frame is emitted once */
}

/*
 * record - keeps the frame in the ring, and captures it if it is in error or close to such a frame.
 * A global function, so that the verifier checks it once and not once per reason.
 */
__noinline int record(struct xdp_md *ctx, const struct stamp *s, enum reason reason, __u64 now, __u32 length)
{
	__u32 zero = 0, at, kept = length < ANALYZER_SNAP ? length : ANALYZER_SNAP;
	struct recorder *recorder = bpf_map_lookup_elem(&recorders, &zero);
	struct captured *frame;

	if (!recorder || !s)
		return 0;
	at = (__u32)recorder->next % ANALYZER_RECENT;
	frame = bpf_map_lookup_elem(&recent, &at);
	if (!frame || kept == 0)
		return 0;
	recorder->next++;
	frame->at = now;
	frame->sequence = s->sequence;
	frame->stream = s->stream;
	frame->reason = reason;
	frame->length = length;
	asm volatile("" : "+r"(kept)); /* older verifiers learn nothing from kept != 0 */
	kept = ((kept - 1) & (ANALYZER_SNAP - 1)) + 1;
	frame->kept = kept;
	if (bpf_xdp_load_bytes(ctx, 0, frame->data, kept))
		frame->kept = 0;
	if (reason == REASON_CONTEXT) {
		if (recorder->after) {
			recorder->after--;
			emit(frame);
		}
		return 0;
	}
	recorder->after = ANALYZER_AFTER;
	for (__u32 i = 0; i <= ANALYZER_BEFORE; i++) {
		at = (__u32)(recorder->next + ANALYZER_RECENT - 1 - ANALYZER_BEFORE + i) % ANALYZER_RECENT;
		frame = bpf_map_lookup_elem(&recent, &at);
		if (frame)
			emit(frame);
	}
	return 0;
}

/*
 * wipe - sets a stream's whole window to "nothing arrived" (0) or "everything arrived" (~0). With
 * ~0 a late frame counts as a duplicate too many instead of a loss too few. A global function, so
 * that the verifier checks it once.
 */
__noinline int wipe(__u32 key, __u64 seen)
{
	struct window *w = bpf_map_lookup_elem(&windows, &key);

	if (!w)
		return 0;
	for (int i = 0; i < ANALYZER_BLOCKS; i++) {
		w->blocks[i].seen = seen;
		w->blocks[i].record = 0;
	}
	return 0;
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

/* find - locates the stamp of a frame; returns 0 if the frame has none. */
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
	struct measured measured = {};
	enum reason reason, damage;
	struct datagram d;
	struct stamp s;
	struct window *w;
	__u32 length, *slot, key;

	length = (__u32)(ctx->data_end - ctx->data);
	if (!find(ctx, &d, &s, tai))
		return foreign(length, 0);
	slot = bpf_map_lookup_elem(&slots, &s.stream);
	if (!slot || !*slot)
		return foreign(length, 1);
	key = *slot - 1;
	c = bpf_map_lookup_elem(&streams, &key);
	w = bpf_map_lookup_elem(&windows, &key);
	if (!c || !w)
		return foreign(length, 1);
	if (d.udp + d.length > length) /* if the datagram spans several buffers; stamped frames have no trailer */
		length = d.udp + d.length;
	damage = damaged(ctx, &d);
	if (damage == REASON_CONTEXT && contradicts(c, s.sequence, s.time))
		wipe(key, misnumbered(c, s.sequence) ? ~0ULL : 0); /* outside of the lock, under which calls are not allowed */

	if (settings.parallel)
		bpf_spin_lock(&c->lock);
	if (c->received++ == 0)
		c->first = now;
	c->last = now;
	c->wire_bytes += length + WIRE_OVERHEAD;
	c->payload_bytes += d.length - PACKET_UDP;
	if (damage == REASON_CONTEXT) {
		reason = judge(c, w, s.sequence, s.time, now);
		if (reason != REASON_DUPLICATE && reason != REASON_OUT_OF_WINDOW)
			clock(c, (__s64)(tai - s.time), &measured, settings.relative);
	} else {
		reason = damage;
		if (damage == REASON_HEADER)
			c->header_errors++;
		else
			c->payload_errors++;
		c->corrupt_got = s.sequence;
		c->corrupt_at = now;
	}
	if (settings.parallel)
		bpf_spin_unlock(&c->lock);

	count_times(&measured, key);
	if (settings.capture)
		record(ctx, &s, reason, now, length);
	return settings.pass ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
