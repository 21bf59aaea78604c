//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The generator: the kernel runs it once per frame slot (BPF_PROG_TEST_RUN with
 * BPF_F_TEST_XDP_LIVE_FRAMES) and sends what it returns with XDP_TX.
 *
 *      heap: paced streams by due time          rounds: streams without a pace, in turn
 *               |                                          |
 *        due already? --- yes ---> send, put back    send if nothing is due
 *               |                  at due + period
 *               no, and no rounds: wait a little inside, or give the slot up (XDP_DROP)
 *
 * A heap key is due time << 12 | stream, so that one comparison orders both; with four children per
 * node, 4096 streams are six levels deep. Nothing here is shared: one thread runs the program.
 *
 * The kernel recycles frames together with what receivers have done to them, so each frame gets its
 * first 80 octets anew. A frame longer than another also gets zeros where the other carried its
 * stamp.
 *
 * The program ends by itself: past its duration or frame limit every slot is XDP_DROP, whatever
 * became of its controller.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "histogram.h"
#include "stamp.h"
#include "checksum.h"
#include "generator.h"

#define UDP_SIZE 8
#define WIRE_OVERHEAD 24 /* FCS, preamble, delimiter, gap */
#define SPINS 1024       /* readings of the clock in one wait: some 20 us */
#define LENGTH_MASK 0xfff

const volatile struct generator_settings settings;

/* outlines: what frames look like; plan.outline + plan.cycle[] is the index */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct outline);
} outlines SEC(".maps");

/* plans: what to send, by index */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct plan);
} plans SEC(".maps");

/* progresses: what was sent, by index */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progresses SEC(".maps");

/* due: the heap */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct heap);
} due SEC(".maps");

/* turns: streams without a pace */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rounds);
} turns SEC(".maps");

/* accounts: of the whole schedule */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

/* latenesses: ns between due and sent */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lateness);
} latenesses SEC(".maps");

/* wait - reads the clock until it has come to a time, or for a while; returns its last reading. */
static __always_inline __u64 wait(__u64 until)
{
	__u64 now = 0;

	for (int i = 0; i < SPINS; i++) { /* a plain loop, so that kernels without a JIT take the program */
		now = bpf_ktime_get_ns();
		if (now >= until)
			break;
	}
	return now;
}

/*
 * SMALLER - the smaller of two keys, and the place it has, without a jump that nobody could
 * predict.
 */
#define SMALLER(key, place, other, there)                   \
	do {                                                \
		__s64 below = (__s64)((other) - (key));     \
		__u64 mask = (__u64)(below >> 63);          \
		key += (__u64)below & mask;                 \
		place += ((there) - (place)) & (__u32)mask; \
	} while (0)

/* put_root - replaces the smallest key. */
static __always_inline void put_root(struct heap *h, __u64 key)
{
	__u32 at = 0, left, right;
	__u64 a, b, c, d, place;

	for (int level = 0; level < 6; level++) {
		place = at;
		asm volatile("" : "+r"(place)); /* one register is checked and used: older verifiers know no copies of half of one */
		if (place >= 1024)
			break;
		left = 4 * place + 1;
		right = 4 * place + 3;
		a = h->keys[4 * place + 1];
		b = h->keys[4 * place + 2];
		c = h->keys[4 * place + 3];
		d = h->keys[4 * place + 4];
		SMALLER(a, left, b, 4 * at + 2);
		SMALLER(c, right, d, 4 * at + 4);
		SMALLER(a, left, c, right);
		if (key <= a)
			break;
		h->keys[place] = a;
		at = left;
	}
	place = at;
	asm volatile("" : "+r"(place));
	if (place < GENERATOR_HEAP)
		h->keys[place] = key;
}

static __always_inline __u64 mix(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static __always_inline __u32 words(__u32 value)
{
	return checksum_fold((value >> 16) + (value & 0xffff));
}

/* step - a field's value for the next frame. */
static __always_inline void step(const struct field *f, struct turn *t)
{
	if (++t->repeated < f->repetitions)
		return;
	t->repeated = 0;
	t->step++;
	if (f->action == ACTION_INCREMENT)
		t->value = ((t->value | ~f->mask) + 1) & f->mask; /* the carry runs through the bits between */
	else if (f->action == ACTION_DECREMENT)
		t->value = (t->value - 1) & f->mask;
	else
		t->value = (__u32)(mix(f->seed + t->step) >> 32) & f->mask;
}

/* write - makes the stream's next frame; 0 if it does not fit what the kernel handed in. */
static __always_inline int write(struct xdp_md *ctx, const struct plan *plan, struct progress *p, const struct outline *o, __u64 now)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *at;
	__u32 udp = o->udp_sum, network = o->network_sum, sum;

	for (int i = 0; i < GENERATOR_SIZES && i < settings.restores; i++) {
		at = data + (settings.restore[i] & LENGTH_MASK);
		if (settings.restore[i] + STAMP_SIZE >= o->length || at + STAMP_SIZE > end)
			continue;
		*(__u64 *)at = 0;
		*(__u64 *)(at + 8) = 0;
		*(__u16 *)(at + 16) = 0;
	}
	if (data + GENERATOR_HEAD <= end)
		__builtin_memcpy(data, o->head, GENERATOR_HEAD);
	else if (data + GENERATOR_SHORT <= end)
		__builtin_memcpy(data, o->head, GENERATOR_SHORT);
	else
		return 0;
	for (int i = 0; i < GENERATOR_FIELDS && i < plan->fields; i++) {
		const struct field *f = &plan->field[i];
		struct turn *t = &p->turn[i];

		at = data + (f->offset & 0x7f);
		if (at + 4 > end)
			return 0;
		*(__u32 *)at = (*(__u32 *)at & ~bpf_htonl(f->mask)) | bpf_htonl(t->value);
		sum = words(t->value & f->network_mask);
		network += f->odd ? checksum_swap(sum) : sum;
		sum = words(t->value & f->udp_mask);
		udp += f->odd ? checksum_swap(sum) : sum;
		step(f, t);
	}
	if (o->stamp) {
		at = data + (o->stamp & LENGTH_MASK);
		if (at + STAMP_SIZE > end)
			return 0;
		sum = checksum_fold(stamp_write(at, plan->id, p->frames, now + settings.tai));
		udp += o->odd ? checksum_swap(sum) : sum;
	}
	at = data + (o->udp & 0x7f);
	if (at + UDP_SIZE > end)
		return 0;
	sum = ~checksum_fold(udp) & 0xffff;
	*(__u16 *)(at + 6) = bpf_htons(sum ? sum : 0xffff);
	if (o->network) {
		at = data + (o->network & 0x7f);
		if (at + 12 > end)
			return 0;
		*(__u16 *)(at + 10) = bpf_htons(~checksum_fold(network) & 0xffff);
	}
	p->wire_bytes += o->length + WIRE_OVERHEAD;
	p->payload_bytes += o->length - o->udp - UDP_SIZE;
	if (o->length != settings.length)
		return bpf_xdp_adjust_tail(ctx, (int)o->length - (int)settings.length) == 0;
	return 1;
}

/* send - sends the next frame of a stream. */
static __always_inline int send(struct xdp_md *ctx, struct account *a, struct plan *plan, struct progress *p, __u64 now)
{
	__u32 key = plan->outline;
	struct outline *o;

	if (plan->cycle_length > 1) {
		key += plan->cycle[p->position & (GENERATOR_CYCLE - 1)];
		p->position = p->position + 1 < plan->cycle_length ? p->position + 1 : 0;
	}
	o = bpf_map_lookup_elem(&outlines, &key);
	if (!o || !write(ctx, plan, p, o, now))
		return XDP_ABORTED;
	if (p->frames++ == 0)
		p->first = now;
	p->last = now;
	a->frames++;
	return XDP_TX;
}

/*
 * late - accounts for a paced frame that was due a while ago, and for those it came too late to
 * send.
 */
static __always_inline __u64 late(struct account *a, const struct plan *plan, struct progress *p, __u64 lateness)
{
	__u32 zero = 0;
	struct lateness *l = bpf_map_lookup_elem(&latenesses, &zero);
	__u64 missed;

	if (l)
		l->buckets[hist_index(lateness, GENERATOR_BUCKETS)]++;
	if (a->lateness_count++ == 0 || lateness < a->lateness_min)
		a->lateness_min = lateness;
	if (lateness > a->lateness_max)
		a->lateness_max = lateness;
	a->lateness_sum += lateness;
	if (lateness > settings.late_after)
		p->late++;
	if (settings.space)
		return lateness > plan->period / 8 ? lateness : 0;
	if (!settings.skip || lateness < plan->period || lateness < settings.tolerance || !plan->period)
		return 0;
	missed = lateness / plan->period;
	p->skipped += missed * plan->burst;
	return missed * plan->period;
}

/* turn_round - sends a frame of the next stream without a pace. */
static __always_inline int turn_round(struct xdp_md *ctx, struct account *a, struct rounds *r, __u64 now)
{
	__u32 at = r->at, index;
	struct progress *p;
	struct plan *plan;
	int verdict;

	if (at >= GENERATOR_STREAMS)
		return XDP_ABORTED;
	index = r->streams[at];
	plan = bpf_map_lookup_elem(&plans, &index);
	p = bpf_map_lookup_elem(&progresses, &index);
	if (!plan || !p)
		return XDP_ABORTED;
	verdict = send(ctx, a, plan, p, now);
	at++;
	if (plan->frames && p->frames >= plan->frames) {
		__u32 last = r->size - 1;

		at--;
		if (last < GENERATOR_STREAMS && at < GENERATOR_STREAMS)
			r->streams[at] = r->streams[last];
		r->size = last;
	}
	r->at = at < r->size ? at : 0;
	return verdict;
}

/* turn_due - sends a frame of the stream that is due, and puts it back to when it is due again. */
static __always_inline int turn_due(struct xdp_md *ctx, struct account *a, struct heap *h, struct rounds *r, __u64 when, __u32 index, __u64 now)
{
	struct plan *plan = bpf_map_lookup_elem(&plans, &index);
	struct progress *p = bpf_map_lookup_elem(&progresses, &index);
	__u64 elapsed = now - a->started;
	int verdict;

	if (!plan || !p)
		return XDP_ABORTED;
	if (!plan->period && !settings.sequential) { /* it has waited for its start and takes turns from now on */
		if (r->size < GENERATOR_STREAMS)
			r->streams[r->size++] = (__u16)index;
		put_root(h, GENERATOR_NEVER);
		return XDP_DROP;
	}
	if (plan->period && p->burst == 0)
		when += late(a, plan, p, elapsed - when);
	verdict = send(ctx, a, plan, p, now);
	if (++p->burst >= plan->burst) {
		p->burst = 0;
		when += plan->period;
	}
	if (plan->frames && p->frames >= plan->frames) {
		__u32 next = a->current + 1;

		plan = settings.sequential && next < settings.streams ? bpf_map_lookup_elem(&plans, &next) : 0;
		if (!plan) {
			put_root(h, GENERATOR_NEVER);
			return verdict;
		}
		a->current = next;
		index = next;
		if (!plan->period) /* no pace: follow at once */
			when = elapsed;
		when += plan->start;
	}
	put_root(h, when << GENERATOR_INDEX_BITS | index);
	return verdict;
}

static __always_inline int end(struct account *a, enum ended why)
{
	a->ended = why;
	return XDP_DROP;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct account *a = bpf_map_lookup_elem(&accounts, &zero);
	struct rounds *r = bpf_map_lookup_elem(&turns, &zero);
	struct heap *h = bpf_map_lookup_elem(&due, &zero);
	__u64 now, elapsed, key, when;

	if (!a || !r || !h || a->ended)
		return XDP_DROP;
	now = bpf_ktime_get_ns();
	if (!a->started)
		a->started = now;
	elapsed = now - a->started;
	if (elapsed >= settings.duration)
		return end(a, ENDED_DURATION);
	if (settings.max_frames && a->frames >= settings.max_frames)
		return end(a, ENDED_FRAMES);
	key = h->keys[0];
	when = key >> GENERATOR_INDEX_BITS;
	if (when > elapsed) {
		if (r->size)
			return turn_round(ctx, a, r, now);
		if (key == GENERATOR_NEVER)
			return end(a, ENDED_SCHEDULE);
		if (!settings.spin)
			return XDP_DROP;
		now = wait(a->started + when);
		elapsed = now - a->started;
		if (when > elapsed || elapsed >= settings.duration)
			return XDP_DROP; /* the kernel looks for signals and other tasks between slots */
	}
	return turn_due(ctx, a, h, r, when, (__u32)key & (GENERATOR_STREAMS - 1), now);
}

/* pass - lets everything through: a veth peer takes frames only if it has an XDP program or GRO. */
SEC("xdp.frags")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* probe - for a look whether live frames can be had. */
SEC("xdp")
int probe(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
