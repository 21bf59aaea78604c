/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records for the collector, and postcards. */
#ifndef WEIR_IOAM_EXPORT_H
#define WEIR_IOAM_EXPORT_H

#include "../../../bpf/upper_layer.h"
#include "maps.h"
#include "node_data.h"

#define FLOW_ID 0x80
#define EXPORT_SEQUENCE 0x40
#define IP6_SIZE 40
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_IP6 41

static __always_inline int has_ports(__u32 protocol)
{
	return protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP;
}

/* Stores protocol and ports of the upper layer at a packet offset. */
static __always_inline void describe_flow(struct __sk_buff *skb, struct ioam_work *w, __u8 protocol, __u32 at)
{
	struct ioam_record *r = &w->record;
	__u16 ports[2];

	w->upper = at;
	r->protocol = protocol;
	if (has_ports(protocol) && at && !bpf_skb_load_bytes(skb, at, ports, sizeof(ports))) {
		r->source_port = bpf_ntohs(ports[0]);
		r->destination_port = bpf_ntohs(ports[1]);
	}
}

/*
 * The same for an upper layer behind extension headers, behind bytes after the IPv6 header at ip.
 */
__attribute__((noinline)) int describe_behind(struct __sk_buff *skb, __u32 ip, __u32 behind, __u32 next)
{
	struct upper_layer upper = upper_layer_of(next);
	struct ioam_work *w = work();

	if (!w)
		return 0;
	upper.at = behind;
	upper_layer_walk(skb, &upper, ip);
	describe_flow(skb, w, upper.protocol, upper.later ? 0 : ip + upper.at);
	return 0;
}

/* Stores the flow of the inner packet of a tunnel; at is its packet offset. */
__attribute__((noinline)) int describe_inner(struct __sk_buff *skb, __u32 at)
{
	struct ioam_work *w = work();
	__u8 head[8];

	if (!w || bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return 0;
	if (bpf_skb_load_bytes(skb, at + 8, w->record.source, 32)) /* with the destination behind it */
		return 0;
	if (extension_is(head[6]))
		describe_behind(skb, at, IP6_SIZE, head[6]);
	else
		describe_flow(skb, w, head[6], at + IP6_SIZE);
	return 0;
}

/*
 * Stores addresses, header fields and flow of a packet in the record. Extension headers behind
 * those already read are walked.
 */
static __always_inline void describe_packet(struct __sk_buff *skb, struct ioam_work *w)
{
	__u8 *ip = AT_OFFSET((__u8 *)(long)skb->data, w->l2 & 15);
	struct ioam_record *r = &w->record;

	if (ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
		return;
	__builtin_memcpy(r->source, &ip[8], 32); /* with the destination behind it */
	r->traffic_class = ip[0] << 4 | ip[1] >> 4;
	r->flow_label = (ip[1] & 0xf) << 16 | ip[2] << 8 | ip[3];
	r->next_header = ip[6];
	r->hop_limit = ip[7];
	w->payload = ip[4] << 8 | ip[5];
	r->length = skb->len - w->l2;
	r->interface = skb->ifindex;
	r->source_port = r->destination_port = 0;
	if (has_ports(w->next)) {
		describe_flow(skb, w, w->next, w->l2 + IP6_SIZE + w->total);
		return;
	}
	describe_behind(skb, w->l2 & 15, IP6_SIZE + w->total, w->next);
	if (r->protocol == PROTOCOL_IP6 && w->upper)
		describe_inner(skb, w->upper);
}

/* Exports a record without a wakeup; the collector polls. */
static __always_inline void export_record(struct ioam_record *r, __u32 octets, __u32 kind)
{
	__u32 behind = octets + (kind & IOAM_RECORD_CONTEXT ? sizeof(struct ioam_context) : 0);

	if (behind > IOAM_OCTETS)
		return;
	r->header = octets;
	r->kind = kind;
	if (bpf_ringbuf_output(&ioam_records, r, sizeof(*r) + behind, BPF_RB_NO_WAKEUP))
		count(IOAM_RING_FULL);
	else
		count(IOAM_EXPORTED);
}

/* Takes a token of this second for a postcard; returns 0 without one. */
static __always_inline int within_postcard_rate(struct ioam_work *w, const struct ioam_settings *node)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - w->postcards_filled > 1000000000ULL) {
		w->postcards_filled = now;
		w->postcard_tokens = node->postcards;
	}
	if (!w->postcard_tokens)
		return 0;
	w->postcard_tokens--;
	return 1;
}

/*
 * Direct export (RFC 9326): exports the option's data and this node's data. The option's data is at
 * a word of in.
 */
__attribute__((noinline)) int export_postcard(struct __sk_buff *skb, __u32 id, __u32 at, __u32 words)
{
	struct ioam_work *w = work();
	struct ioam_settings *node = settings();
	__u32 type, end;

	if (!w || !node)
		return 0;
	if (!within_postcard_rate(w, node)) {
		count(IOAM_LIMITED);
		return 0;
	}
	type = word(&w->in, at + 1) >> 8 & ~TYPE_CHECKSUM & ~1U;
	describe_packet(skb, w);
	sample(skb, w, node, type);
	w->card = w->record;
	w->card.time = utc(w, node, bpf_ktime_get_ns());
	for (__u32 i = 0; i < 10 && i < words; i++)
		w->out[i] = w->in.words[(at + i) & WORD_MASK];
	end = fill_postcard(id, words & 15, type);
	export_record(&w->card, (end & POSTCARD_MASK) * 4, IOAM_RECORD_POSTCARD);
	return 0;
}

#endif /* WEIR_IOAM_EXPORT_H */
