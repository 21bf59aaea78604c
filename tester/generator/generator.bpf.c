//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Generates frames: the kernel runs the program once per frame slot (BPF_PROG_TEST_RUN with
 * BPF_F_TEST_XDP_LIVE_FRAMES) and sends the frame with XDP_TX.
 *
 *      heap: paced streams by due time          rounds: streams without a pace, round robin
 *               |                                          |
 *        due already? --- yes ---> send, put back    send if nothing is due
 *               |                  at due + period
 *               no, and no rounds: wait a little inside, or give the slot up (XDP_DROP)
 *
 * The heap (heap.h) of 4096 streams is six levels deep. One thread runs the program, so no map is
 * shared.
 *
 * The kernel recycles frames with the changes that receivers made to them, so the program rewrites
 * the first 80 octets of each frame (write.h). A longer frame also gets zeros at the place of a
 * shorter frame's stamp.
 *
 * The program ends by itself: past its duration or frame limit every slot is XDP_DROP, even if its
 * controller is dead.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../../bpf/histogram.h"
#include "../../bpf/stamp.h"
#include "../../bpf/checksum.h"
#include "generator.h"

#define SPINS 1024 /* clock readings in one wait: some 20 us */

const volatile struct generator_settings settings;

#include "heap.h"
#include "write.h"

/* outlines: frame templates, by plan.outline + plan.cycle[] */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct outline);
} outlines SEC(".maps");

/* plans: the streams to send, by index */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct plan);
} plans SEC(".maps");

/* progresses: progress of each stream, by index */
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

/* accounts: totals of the schedule */
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

/* wait - reads the clock until the given time or SPINS readings; returns the last reading. */
static __always_inline __u64 wait(__u64 until)
{
	__u64 now = 0;

	for (int i = 0; i < SPINS; i++) { /* a plain loop, so that kernels without a JIT accept the program */
		now = bpf_ktime_get_ns();
		if (now >= until)
			break;
	}
	return now;
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

/* late - accounts for a paced frame past its due time, and for frames skipped because of it. */
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

/* turn_due - sends a frame of the stream that is due, and puts it back with its next due time. */
static __always_inline int turn_due(struct xdp_md *ctx, struct account *a, struct heap *h, struct rounds *r, __u64 when, __u32 index, __u64 now)
{
	struct plan *plan = bpf_map_lookup_elem(&plans, &index);
	struct progress *p = bpf_map_lookup_elem(&progresses, &index);
	__u64 elapsed = now - a->started;
	int verdict;

	if (!plan || !p)
		return XDP_ABORTED;
	if (!plan->period && !settings.sequential) { /* its start has come: from now on it is served round robin */
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
			return XDP_DROP; /* the kernel checks for signals and other tasks between slots */
	}
	return turn_due(ctx, a, h, r, when, (__u32)key & (GENERATOR_STREAMS - 1), now);
}

/* pass_frames - passes every frame: without XDP or GRO a veth peer accepts no live frames. */
SEC("xdp.frags")
int pass_frames(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* probe - tests whether the kernel supports live frames. */
SEC("xdp")
int probe(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
