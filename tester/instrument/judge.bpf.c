//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The instrument's analyzer, as ietf-traffic-analyzer defines it. The program stays attached while
 * the instrument is open; a commit only flips the bank:
 *
 *        bank 0: rules, totals, captured frames      <- active
 *        bank 1: the same, cleared and set for the next commit
 *
 * A frame is a test frame if the filter matches; without a filter, if its last 18 octets are a
 * stamp: 8 of sequence number, 10 of IEEE 1588 time within 388 days of now. A stamped test frame is
 * a sequence error if its number is not the expected one; the next expected number is its own plus
 * one. Test frames are dropped, all others are passed on.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "judge.h"

#define STAMP 18
#define SECOND 1000000000ULL
#define YEAR (1LL << 25) /* s: 388 days */
#define FCS 4

/* controls: the active bank */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} controls SEC(".maps");

/* rule_banks: settings by bank */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct rules);
} rule_banks SEC(".maps");

/* total_banks: counters by bank */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct totals);
} total_banks SEC(".maps");

/* frames: captured frames, bank * JUDGE_FRAMES + number % JUDGE_FRAMES */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * JUDGE_FRAMES);
	__type(key, __u32);
	__type(value, struct captured);
} frames SEC(".maps");

struct stamp {
	__u64 number;
	__u64 time; /* ns of TAI */
};

/* stamped - reads the stamp at the end of a frame; 0 if there is none. */
static __always_inline int stamped(struct xdp_md *ctx, __u32 length, __u64 tai, struct stamp *s)
{
	struct {
		__u64 number;
		__u16 unused[3], upper;
		__u32 lower, ns;
	} parts = {};
	__s64 age;

	if (length < 14 + STAMP || bpf_xdp_load_bytes(ctx, length - STAMP, &parts.number, 8) ||
	    bpf_xdp_load_bytes(ctx, length - 10, &parts.upper, 10))
		return 0;
	parts.ns = bpf_ntohl(parts.ns);
	if (parts.upper || parts.ns >= SECOND)
		return 0;
	s->number = bpf_be64_to_cpu(parts.number);
	s->time = bpf_ntohl(parts.lower) * SECOND + parts.ns;
	age = (__s64)(tai - s->time);
	return (age < 0 ? -age : age) < YEAR * (__s64)SECOND;
}

/* matches - compares a frame with the filter, eight octets at a time. */
static __always_inline int matches(struct xdp_md *ctx, const struct rules *r)
{
	__u64 octets[JUDGE_FILTER / 8] = {}, differ = 0;
	__u32 length = r->filter_length;

	asm volatile("" : "+r"(length));
	length = ((length - 1) & (JUDGE_FILTER - 1)) + 1;
	if (bpf_xdp_load_bytes(ctx, r->filter_offset, octets, length))
		return 0;
	for (int i = 0; i < JUDGE_FILTER / 8; i++)
		differ |= (octets[i] ^ r->data[i]) & r->mask[i];
	return !differ;
}

/* count_sequence - accounts for a stamp; the lock is held. */
static __always_inline void count_sequence(struct totals *t, const struct stamp *s, __u64 now, __s64 tai)
{
	__s64 latency = (__s64)(now + tai - s->time);

	if (s->number != t->expected) {
		t->sequence_errors++;
		t->error_at = now;
		t->error_expected = t->expected;
		t->error_received = s->number;
	}
	t->expected = s->number + 1;
	t->numbered++;
	if (latency < 0) {
		t->negative++;
		return;
	}
	if (t->samples++ == 0 || (__u64)latency < t->latency_min)
		t->latency_min = latency;
	if ((__u64)latency > t->latency_max)
		t->latency_max = latency;
	t->latency_sum += latency;
	t->latency_latest = latency;
}

/*
 * keep - copies a frame into the capture. A function of its own, so that the verifier checks it
 * once.
 */
__noinline int keep(struct xdp_md *ctx, __u32 key, __u64 at, __u64 which, __u32 snap)
{
	struct captured *c = bpf_map_lookup_elem(&frames, &key);
	__u32 length = (__u32)bpf_xdp_get_buff_len(ctx), kept = length < snap ? length : snap;

	if (!c || kept == 0)
		return 0;
	asm volatile("" : "+r"(kept));
	kept = ((kept - 1) & (JUDGE_SNAP - 1)) + 1;
	c->at = at;
	c->number = which;
	c->size = length;
	c->kept = bpf_xdp_load_bytes(ctx, 0, c->data, kept) ? 0 : kept;
	return 0;
}

SEC("xdp.frags")
int judge(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns(), which = 0;
	__u32 zero = 0, bank, length, test, capture = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);
	struct stamp s = {};
	struct rules *r;
	struct totals *t;
	int has_stamp;

	if (!control || !control->enabled)
		return XDP_PASS;
	bank = control->bank & 1;
	r = bpf_map_lookup_elem(&rule_banks, &bank);
	t = bpf_map_lookup_elem(&total_banks, &bank);
	if (!r || !t)
		return XDP_PASS;
	length = (__u32)bpf_xdp_get_buff_len(ctx);
	test = !r->filter || matches(ctx, r);
	has_stamp = test && stamped(ctx, length, now + r->tai, &s);
	if (!r->filter)
		test = has_stamp;

	bpf_spin_lock(&t->lock);
	if (r->capture && t->pkts >= r->frame_index && t->test_pkts >= r->testframe_index &&
	    !(r->when_full && t->captured >= JUDGE_FRAMES)) {
		which = t->captured++;
		t->captured_octets += length + FCS;
		capture = 1;
	}
	t->pkts++;
	t->octets += length + FCS;
	if (test) {
		if (t->test_pkts++ == 0)
			t->first = now;
		t->last = now;
		t->test_octets += length + FCS;
		if (has_stamp)
			count_sequence(t, &s, now, r->tai);
	}
	bpf_spin_unlock(&t->lock);

	if (capture)
		keep(ctx, bank * JUDGE_FRAMES + (__u32)(which % JUDGE_FRAMES), now, which, r->snap);
	return test ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
