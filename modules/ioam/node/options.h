/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Actions for each IOAM option, in the copy of the headers (walk.h). */
#ifndef WEIR_IOAM_OPTIONS_H
#define WEIR_IOAM_OPTIONS_H

#include "cache.h"
#include "edges.h"
#include "export.h"
#include "maps.h"
#include "node_data.h"
#include "proof.h"

#define FLAGS (15U << 7)

static __always_inline enum ioam_count record_trace(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_cached_namespace *ns, __u32 at, __u32 length, __u32 mutable)
{
	struct ioam_settings *node = settings();
	__u32 head = word(&w->in, at), type = word(&w->in, at + 1) >> 8;
	__u32 remaining = head & 0x7f, words;

	if (!node)
		return IOAM_GOOD;
	if (length < 8)
		return IOAM_SHORT;
	if (length & 3)
		return IOAM_ODD;
	if ((head >> 11 & 0x1f) != field_words(type))
		return IOAM_NODE_LENGTH;
	if (remaining * 4 > length - 8)
		return IOAM_REMAINING;
	if (!mutable) {
		count(IOAM_UNSUPPORTED);
		return IOAM_GOOD;
	}
	if (head & IOAM_FLAG_ACTIVE) {
		w->active = 1;
		count(IOAM_ACTIVE);
	}
	if (head & IOAM_FLAG_OVERFLOW) {
		count(IOAM_FULL);
		return IOAM_GOOD;
	}
	w->dirty = 1;
	words = node_words(type, ns);
	if (words > remaining) {
		w->in.words[at & WORD_MASK] |= bpf_htonl(IOAM_FLAG_OVERFLOW);
		count(IOAM_OVERFLOW);
		return IOAM_GOOD;
	}
	sample(skb, w, node, type);
	w->in.words[at & WORD_MASK] = bpf_htonl(head - words);
	fill_header(ns->key - 1, at + 2 + remaining - words, type);
	count(IOAM_RECORDED);
	return IOAM_GOOD;
}

static __always_inline enum ioam_count update_proof(struct ioam_work *w, __u32 space, __u32 at, __u32 length, __u32 mutable)
{
	struct ioam_namespace *ns = bpf_map_lookup_elem(&ioam_namespaces, &space);
	__u64 id;

	if (word(&w->in, at) >> 8 & 0xff) { /* IOAM-POT-Type other than 0 */
		count(IOAM_UNSUPPORTED);
		return IOAM_GOOD;
	}
	if (length != 20)
		return IOAM_FIELDS;
	if (!mutable) {
		count(IOAM_UNSUPPORTED);
		return IOAM_GOOD;
	}
	if (!ns || !update_cumulative(&w->in, ns, at + 1))
		return IOAM_GOOD;
	w->dirty = 1;
	id = read_long(&w->in, at + 1);
	if (ns->proof[id & 1].secret == ~0ULL)
		return IOAM_GOOD;
	if (!proof_holds(&ns->proof[id & 1], id, read_long(&w->in, at + 3))) {
		w->proof = 2;
		count(IOAM_DISPROVEN);
	} else if (is_new_proof(space, id)) {
		w->proof = 1;
		count(IOAM_PROVEN);
	} else {
		w->proof = 3;
		count(IOAM_REPLAYED);
	}
	return IOAM_GOOD;
}

static __always_inline void defer_option(struct ioam_work *w, __u32 kind, __u32 at, __u32 length)
{
	__u32 i = w->deferred_count;

	if (i >= MAX_DEFERRED) {
		count(IOAM_UNSUPPORTED);
		return;
	}
	w->deferred[i] = kind << 24 | (at & 0xffff) << 8 | length / 4;
	w->deferred_count = i + 1;
}

static __always_inline enum ioam_count check_edge(struct ioam_work *w, __u32 at, __u32 length)
{
	__u32 type = word(&w->in, at) & 0xffff;

	if ((type & SEQUENCE64) && (type & SEQUENCE32))
		return IOAM_SEQUENCES;
	if (length < 4 + 4 * (__builtin_popcount(type & 0xf000) + !!(type & SEQUENCE64)))
		return IOAM_FIELDS;
	if (w->at_exit)
		defer_option(w, IOAM_EDGE, at, length);
	return IOAM_GOOD;
}

static __always_inline enum ioam_count check_export(struct ioam_work *w, __u32 at, __u32 length)
{
	if (length < 8)
		return IOAM_SHORT;
	if (length != 8 + 4 * __builtin_popcount(word(&w->in, at) & 0xff))
		return IOAM_FIELDS;
	defer_option(w, IOAM_EXPORT, at, length);
	return IOAM_GOOD;
}

/* Processes a deferred option, after the parser accepted all. */
__attribute__((noinline)) int process_deferred(struct __sk_buff *skb, __u32 i)
{
	struct ioam_work *w = work();
	__u32 what, at;

	if (!w || i >= MAX_DEFERRED)
		return 0;
	what = w->deferred[i];
	at = what >> 8 & 0xffff;
	if (what >> 24 == IOAM_EDGE)
		return end_edge(at, word(&w->in, at) & 0xffff);
	return export_postcard(skb, word(&w->in, at) >> 16, at, what & 0xff);
}

/*
 * Processes the IOAM option at byte offset at of in. length counts the bytes behind the length
 * field. An option that must not change en route (RFC 8200 section 4.2) gets no node data and no
 * share of a proof.
 */
__attribute__((noinline)) int process_option(struct __sk_buff *skb, __u32 at, __u32 length)
{
	struct ioam_work *w = work();
	struct ioam_cached_namespace *ns;
	__u32 kind, data, id, mutable;

	if (!w)
		return IOAM_GOOD;
	w->options++;
	if (length < 2)
		return IOAM_SHORT;
	if (at & 3)
		return IOAM_ALIGNMENT;
	mutable = octet(&w->in, at) == OPTION_MUTABLE;
	kind = octet(&w->in, at + 3);
	length -= 2;
	data = at / 4 + 1;
	if (kind > IOAM_EXPORT) {
		if (!w->at_exit)
			count(IOAM_UNSUPPORTED);
		w->kept++;
		return IOAM_GOOD;
	}
	if (length < 4)
		return IOAM_SHORT;
	id = word(&w->in, data) >> 16;
	ns = lookup_namespace(w, id);
	if (!ns->configured) {
		if (!w->at_exit)
			count(IOAM_UNKNOWN);
		w->kept++;
		return IOAM_GOOD;
	}
	if (w->at_exit) {
		if (!(ns->flags & IOAM_REMOVE)) {
			w->kept++;
			return IOAM_GOOD;
		}
		w->ending++;
		w->strict |= ns->flags & IOAM_STRICT;
		w->ended[at >> 7 & (IOAM_WORDS / 32 - 1)] |= 1U << (at >> 2 & 31);
	}
	switch (kind) {
	case IOAM_TRACE:
		return record_trace(skb, w, ns, data, length, mutable);
	case IOAM_PROOF:
		return update_proof(w, id, data, length, mutable);
	case IOAM_EDGE:
		return check_edge(w, data, length);
	case IOAM_EXPORT:
		return check_export(w, data, length);
	}
	count(IOAM_UNSUPPORTED);
	return IOAM_GOOD;
}

#endif /* WEIR_IOAM_OPTIONS_H */
