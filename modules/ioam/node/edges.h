/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Statistics of flows between two edges, from sequence numbers and times that the first edge
 * inserts (RFC 9197 section 4.6).
 */
#ifndef WEIR_IOAM_EDGES_H
#define WEIR_IOAM_EDGES_H

#include "maps.h"
#include "node_data.h"
#include "proof.h"

#define SEQUENCE64 0x8000
#define SEQUENCE32 0x4000
#define EDGE_SECONDS 0x2000
#define EDGE_FRACTION 0x1000
#define RESTART (1 << 20) /* a number this far below the highest means a restart of the sender */
#define OF_EXPORTS 1      /* key.pad of the sequence numbers of direct export */

static __always_inline void edge_key(struct ioam_edge_key *key, const struct ioam_record *r, __u16 namespace)
{
	__builtin_memset(key, 0, sizeof(*key));
	__builtin_memcpy(key->source, r->source, 32); /* with the destination behind it */
	key->source_port = r->source_port;
	key->destination_port = r->destination_port;
	key->protocol = r->protocol;
	key->namespace = namespace;
}

/* Next sequence number of a flow. */
static __always_inline __u64 next_sequence(struct ioam_work *w, __u16 namespace, __u8 kind)
{
	struct ioam_edge_sent *sent, first = {.sequence = 1};

	edge_key(&w->key, &w->record, namespace);
	w->key.pad = kind;
	sent = bpf_map_lookup_elem(&ioam_edges_sent, &w->key);
	if (sent)
		return __sync_fetch_and_add(&sent->sequence, 1);
	bpf_map_update_elem(&ioam_edges_sent, &w->key, &first, BPF_ANY);
	return 0;
}

/* Converts a timestamp in the node's format to ns since 1970. */
static __always_inline __u64 stamp_ns(const struct ioam_settings *node, __u32 seconds, __u32 fraction)
{
	if (node->clock == IOAM_PTP)
		return seconds * 1000000000ULL + fraction;
	if (node->clock == IOAM_NTP)
		return (__u32)(seconds - (__u32)EPOCH_NTP) * 1000000000ULL + (fraction * 1000000000ULL >> 32);
	return seconds * 1000000000ULL + fraction * 1000ULL;
}

static __always_inline void count_received(struct ioam_edge_received *flow, __u64 number, __u64 sent, __u64 now)
{
	__s64 delay = now - sent;

	flow->packets++;
	flow->last = now;
	if (number > flow->highest) {
		flow->highest = number;
	} else if (flow->highest - number > RESTART) {
		flow->restarts++;
		flow->first = flow->highest = number;
		flow->packets = 1;
	} else if (number < flow->highest) {
		flow->reordered++;
	}
	if (!sent)
		return;
	flow->stamped++;
	flow->delay += delay;
	if (delay < flow->delay_min || flow->stamped == 1)
		flow->delay_min = delay;
	if (delay > flow->delay_max || flow->stamped == 1)
		flow->delay_max = delay;
}

/* Counts an edge-to-edge option at its end. at is the word with its E2E-Type. */
__attribute__((noinline)) int end_edge(__u32 at, __u32 type)
{
	struct ioam_work *w = work();
	struct ioam_settings *node = settings();
	struct ioam_edge_received *flow;
	__u64 number = 0, sent = 0, now;

	if (!w || !node)
		return 0;
	now = utc(w, node, bpf_ktime_get_ns());
	edge_key(&w->key, &w->record, word(&w->in, at) >> 16);
	at++;
	if (type & SEQUENCE64) {
		number = read_long(&w->in, at);
		at += 2;
	}
	if (type & SEQUENCE32)
		number = word(&w->in, at++);
	if ((type & (EDGE_SECONDS | EDGE_FRACTION)) == (EDGE_SECONDS | EDGE_FRACTION))
		sent = stamp_ns(node, word(&w->in, at), word(&w->in, at + 1));
	count(IOAM_EDGES);
	flow = bpf_map_lookup_elem(&ioam_edges_received, &w->key);
	if (!flow) {
		w->fresh.first = w->fresh.highest = number;
		bpf_map_update_elem(&ioam_edges_received, &w->key, &w->fresh, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&ioam_edges_received, &w->key);
	}
	if (flow)
		count_received(flow, number, sent, now);
	return 0;
}

/* Fills in an edge-to-edge option of this node; at is its first field. */
static __always_inline void fill_edge(struct ioam_buffer *b, struct ioam_work *w, const struct ioam_item *item, __u32 at)
{
	__u32 type = item->type;
	__u64 number = 0;

	if (type & (SEQUENCE64 | SEQUENCE32))
		number = next_sequence(w, item->namespace, 0);
	if (type & SEQUENCE64) {
		write_long(b, at, number);
		at += 2;
	}
	if (type & SEQUENCE32)
		b->words[at++ & WORD_MASK] = bpf_htonl((__u32)number);
	if (type & EDGE_SECONDS)
		b->words[at++ & WORD_MASK] = bpf_htonl(w->seconds);
	if (type & EDGE_FRACTION)
		b->words[at & WORD_MASK] = bpf_htonl(w->fraction);
}

#endif /* WEIR_IOAM_EDGES_H */
