/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Proof of transit by Shamir's secret sharing (draft-ietf-sfc-proof-of-transit). Each node adds its
 * share of the value at 0 of the sum of two polynomials: a secret one, and a public one with the
 * packet's id as constant term. Only the sum over all nodes is the secret plus the id. Neighbours
 * share masks, which make the order of the nodes part of the proof.
 */
#ifndef WEIR_IOAM_PROOF_H
#define WEIR_IOAM_PROOF_H

#include "maps.h"

/* 64 x 64 -> 128 bit product. */
static __always_inline void multiply(__u64 a, __u64 b, __u64 *high, __u64 *low)
{
	__u64 a0 = (__u32)a, a1 = a >> 32, b0 = (__u32)b, b1 = b >> 32;
	__u64 bottom = a0 * b0, left = a1 * b0, right = a0 * b1;
	__u64 middle = (bottom >> 32) + (__u32)left + (__u32)right;

	*low = middle << 32 | (__u32)bottom;
	*high = a1 * b1 + (left >> 32) + (right >> 32) + (middle >> 32);
}

/* a * b / 2^64 modulo the prime (Montgomery 1985). */
static __always_inline __u64 montgomery(__u64 a, __u64 b, const struct ioam_proof *p)
{
	__u64 high, low, high2, low2, result;

	multiply(a, b, &high, &low);
	multiply(low * p->inverse, p->prime, &high2, &low2);
	result = high + high2 + (low != 0);
	return result >= p->prime ? result - p->prime : result;
}

/* Adds this node's share to the cumulative value. */
static __always_inline __u64 next_cumulative(const struct ioam_proof *p, __u64 id, __u64 cumulative)
{
	__u64 share = (p->share + id % p->prime) % p->prime;

	cumulative = (cumulative ^ p->mask_in) % p->prime;
	return (cumulative + montgomery(share, p->lagrange, p)) % p->prime ^ p->mask_out;
}

static __always_inline int proof_holds(const struct ioam_proof *p, __u64 id, __u64 cumulative)
{
	return cumulative == (p->secret + id % p->prime) % p->prime;
}

static __always_inline __u64 read_long(const struct ioam_buffer *b, __u32 at)
{
	return (__u64)word(b, at) << 32 | word(b, at + 1);
}

static __always_inline void write_long(struct ioam_buffer *b, __u32 at, __u64 value)
{
	b->words[at & WORD_MASK] = bpf_htonl(value >> 32);
	b->words[(at + 1) & WORD_MASK] = bpf_htonl((__u32)value);
}

/* Updates the proof at a word (its id); returns 0 without a profile for the id. */
static __always_inline int update_cumulative(struct ioam_buffer *b, const struct ioam_namespace *ns, __u32 at)
{
	__u64 id = read_long(b, at);
	const struct ioam_proof *p = &ns->proof[id & 1];

	if (!p->prime)
		return 0;
	write_long(b, at + 2, next_cumulative(p, id, read_long(b, at + 2)));
	return 1;
}

/* Next id of a proof: a sequence number, and a lowest bit that alternates the profiles. */
static __always_inline __u64 next_proof_id(__u32 space)
{
	__u32 key = space << 1;
	struct ioam_proof_window *window = bpf_map_lookup_elem(&ioam_proofs, &key);
	__u64 sequence;

	if (!window)
		return 0;
	sequence = __sync_fetch_and_add(&window->sent, 1);
	return sequence << 1 | (sequence & 1);
}

/*
 * Reports whether a valid proof is new, and marks its sequence number as received. Numbers a window
 * below the highest are rejected, as by IPsec (RFC 4303 section 3.4.3).
 */
__attribute__((noinline)) int is_new_proof(__u32 space, __u64 id)
{
	struct ioam_namespace *ns = bpf_map_lookup_elem(&ioam_namespaces, &space);
	__u32 key = space << 1 | (id & 1);
	struct ioam_proof_window *window = bpf_map_lookup_elem(&ioam_proofs, &key);
	__u64 sequence = id >> 1, bit = 1ULL << (sequence & 63), word = sequence >> 6, last, prime;
	int fresh = 0;

	if (!window || !ns)
		return 0;
	prime = ns->proof[id & 1].prime;
	bpf_spin_lock(&window->lock);
	if (window->prime != prime) {
		window->prime = prime;
		window->highest = 0;
		window->seen[0] = 0;
	}
	last = window->highest >> 6;
	if (sequence > window->highest) {
		for (__u32 i = 1; i <= IOAM_WINDOW; i++)
			if (last + i <= word)
				window->seen[(last + i) & (IOAM_WINDOW - 1)] = 0;
		window->highest = sequence;
		last = word;
	}
	if (word + IOAM_WINDOW > last && !(window->seen[word & (IOAM_WINDOW - 1)] & bit)) {
		window->seen[word & (IOAM_WINDOW - 1)] |= bit;
		fresh = 1;
	}
	bpf_spin_unlock(&window->lock);
	return fresh;
}

#endif /* WEIR_IOAM_PROOF_H */
