/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a frame's sequence number and time mean for its stream; the drawing is in analyzer.bpf.c. No helpers: a lock is held. */
#ifndef WEIR_ANALYZER_JUDGE_H
#define WEIR_ANALYZER_JUDGE_H

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

#endif /* WEIR_ANALYZER_JUDGE_H */
