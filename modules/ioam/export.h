/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records for the collector. */
#ifndef WEIR_IOAM_EXPORT_H
#define WEIR_IOAM_EXPORT_H

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

/* Protocol and ports of a flow whose header is at an octet. */
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

/* The same where extension headers may be in front of it, so many octets behind an IPv6 header. */
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

/* The flow of a packet that is in IPv6 of a node's: that of the inner one, at an octet. */
__attribute__((noinline)) int describe_inner(struct __sk_buff *skb, __u32 at)
{
	struct ioam_work *w = work();
	__u8 head[8];

	if (!w || bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return 0;
	if (bpf_skb_load_bytes(skb, at + 8, w->record.source, 32)) /* and the destination behind it */
		return 0;
	if (extension_is(head[6]))
		describe_behind(skb, at, IP6_SIZE, head[6]);
	else
		describe_flow(skb, w, head[6], at + IP6_SIZE);
	return 0;
}

/* Reads of a packet what records tell; extension headers that are not read are walked. */
static __always_inline void describe(struct __sk_buff *skb, struct ioam_work *w)
{
	__u8 *ip = BEHIND((__u8 *)(long)skb->data, w->l2 & 15);
	struct ioam_record *r = &w->record;

	if (ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
		return;
	__builtin_memcpy(r->source, &ip[8], 32); /* and the destination behind it */
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

/* Hands over a record; the collector looks by itself now and then. */
static __always_inline void hand_over(struct ioam_record *r, __u32 octets, __u32 kind)
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

/* Says whether there is a token for a postcard: as many a second as settings allow. */
static __always_inline int may_send(struct ioam_work *w, const struct ioam_settings *node)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - w->filled > 1000000000ULL) {
		w->filled = now;
		w->tokens = node->postcards;
	}
	if (!w->tokens)
		return 0;
	w->tokens--;
	return 1;
}

/*
 * Direct export (RFC 9326): what a trace would be told, beside the option's data. The data of so
 * many words is at a word of in.
 */
__attribute__((noinline)) int postcard(struct __sk_buff *skb, __u32 id, __u32 at, __u32 words)
{
	struct ioam_work *w = work();
	struct ioam_settings *node = settings();
	__u32 type, end;

	if (!w || !node)
		return 0;
	if (!may_send(w, node)) {
		count(IOAM_LIMITED);
		return 0;
	}
	type = word(&w->in, at + 1) >> 8 & ~TYPE_CHECKSUM & ~1U;
	describe(skb, w);
	sample(skb, w, node, type);
	w->card = w->record;
	w->card.time = utc(w, node, bpf_ktime_get_ns());
	for (__u32 i = 0; i < 10 && i < words; i++)
		w->out[i] = w->in.words[(at + i) & WORD_MASK];
	end = fill_out(id, words & 15, type);
	hand_over(&w->card, (end & TOLD_MASK) * 4, IOAM_RECORD_POSTCARD);
	return 0;
}

#endif /* WEIR_IOAM_EXPORT_H */
