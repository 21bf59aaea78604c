/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The heap of paced streams: four children per node, the smallest key at the root. A key is due
 * time << GENERATOR_INDEX_BITS | stream, so that one comparison orders both.
 */
#ifndef WEIR_GENERATOR_HEAP_H
#define WEIR_GENERATOR_HEAP_H

/* SMALLER - selects the smaller of two keys and its place without an unpredictable branch. */
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
		asm volatile("" : "+r"(place)); /* check and use one register: older verifiers do not track copies of half of one */
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

#endif
