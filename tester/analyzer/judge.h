/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classification of a frame by its stream's sequence numbers and times; the drawing is in
 * analyzer.bpf.c. No helper calls: a lock is held.
 */
#ifndef WEIR_ANALYZER_JUDGE_H
#define WEIR_ANALYZER_JUDGE_H

/*
 * extent - distance in unique frames from the next one to the record with the smallest number above
 * s.
 */
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

/* advance - clears the blocks that enter the window when s becomes the highest sequence number. */
static __always_inline void advance(struct window *w, __u64 next, __u64 s)
{
	__u64 block = (next + 63) / 64, last = s / 64; /* first block not yet started, block of s */

	if (block + ANALYZER_BLOCKS <= last)
		block = last - ANALYZER_BLOCKS + 1;
	for (int i = 0; i < ANALYZER_BLOCKS && block <= last; i++, block++) {
		w->blocks[block % ANALYZER_BLOCKS].seen = 0;
		w->blocks[block % ANALYZER_BLOCKS].record = 0;
	}
}

/*
 * contradicts - detects a frame that was sent after the highest number and has a lower one, which
 * no path causes. If the highest number arrived alone, in the previous frame, and this one fits the
 * expectation before it, the previous frame had a wrong number. Otherwise the sender restarted, or
 * two senders use the identifier.
 */
static __always_inline int contradicts(const struct stream_counts *c, __u64 s, __u64 time)
{
	return s < c->next && time > c->newest;
}

static __always_inline int misnumbered(const struct stream_counts *c, __u64 s)
{
	return c->alone && s >= c->gap_from;
}

/*
 * begin_again - resets the stream to continue at this frame; wipe() has already reset its window.
 */
static __always_inline enum reason begin_again(struct stream_counts *c, __u64 s)
{
	enum reason reason = REASON_RESTART;

	if (misnumbered(c, s)) {
		reason = REASON_MISNUMBERED;
		c->misnumbered++;
		c->unique--;
		c->next = c->gap_from;
	} else {
		c->restarts++;
		c->earlier_lost += c->next - (c->unique - c->earlier);
		c->earlier = c->unique;
		c->next = 0;
	}
	return reason;
}

/*
 * judge - accounts for the sequence number s and returns the reason; REASON_CONTEXT if the frame is
 * in order.
 */
static __always_inline enum reason judge(struct stream_counts *c, struct window *w, __u64 s, __u64 time, __u64 now)
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
	if (contradicts(c, s, time)) {
		reason = begin_again(c, s);
		next = c->next;
	}
	if (s >= next) {
		c->alone = s > next;
		if (s > next) {
			if (reason == REASON_CONTEXT)
				reason = REASON_GAP;
			c->gap_from = next;
		}
		advance(w, next, s);
		block->seen |= bit;
		block->record |= bit;
		block->arrivals[s % 64] = (__u16)c->unique;
		c->next = s + 1;
		c->newest = time;
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
	c->alone = 0;
	return REASON_REORDERED;
}

/* measured lists the histogram buckets of a frame. */
struct measured {
	__u64 delay, variation;
	__u32 has_delay, is_below, has_variation;
};

/* clock - accounts for the transit time of a unique frame; negative if two clocks differ. */
static __always_inline void clock(struct stream_counts *c, __s64 transit, struct measured *m, int relative)
{
	__u64 n = c->timed++;
	__s64 distance;

	if (transit < 0) {
		c->negative_delays++;
		if (!relative)
			transit = 0;
	}
	c->delay_sum += (__u64)transit;
	if (n == 0 || transit < c->delay_min)
		c->delay_min = transit;
	if (n == 0 || transit > c->delay_max)
		c->delay_max = transit;
	if (relative && n < ANALYZER_EARLY) {
		c->early[n & (ANALYZER_EARLY - 1)] = transit;
		if (n == 0 || transit < c->base)
			c->base = transit;
	} else {
		distance = transit - c->base;
		m->has_delay = 1;
		m->is_below = distance < 0;
		m->delay = (__u64)(distance < 0 ? -distance : distance);
	}
	if (n > 0) {
		m->has_variation = 1;
		m->variation = transit > c->transit ? (__u64)(transit - c->transit) : (__u64)(c->transit - transit);
		c->variation_sum += m->variation;
		if (n == 1 || m->variation < c->variation_min)
			c->variation_min = m->variation;
		if (m->variation > c->variation_max)
			c->variation_max = m->variation;
	}
	c->transit = transit;
}

#endif /* WEIR_ANALYZER_JUDGE_H */
