/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Puts options into packets of scopes.
 *
 *   | IPv6 | payload |                    | IPv6 | Hop-by-Hop | payload |
 *   | IPv6 | Hop-by-Hop | payload |  ->   | IPv6 | Hop-by-Hop (PadN of 2) rest of it | payload |
 *
 * A header that is there stays where it is: the new octets come before it, take over its next
 * header and its length, and its first two octets become padding. The options of a template end
 * at a multiple of 8, so what follows keeps its alignment.
 */
#ifndef WEIR_IOAM_ENCAPSULATE_H
#define WEIR_IOAM_ENCAPSULATE_H

#define TCP_SIZE 20
#define UDP_SIZE 8
#define IP6_LONGS (IP6_SIZE / 8)
#define IP6_WORDS (IP6_SIZE / 4)

/* What the packet has, and what it becomes. */
struct place {
	__u32 l2;
	__u32 length;   /* of the IPv6 packet */
	__u32 payload;  /* octets that its header states */
	__u32 old;      /* octets of its Hop-by-Hop header; 0 for none */
	__u32 cover;    /* of these, replaced: 0, or 8 where all but a word of padding is */
	__u32 clear;    /* whether an octet of padding stays behind what is replaced */
	__u32 upper;    /* octet of the packet where the upper layer begins; 0: in another fragment */
	__u8 next;
	__u8 behind;    /* next header of the Hop-by-Hop header */
	__u8 protocol;  /* of the upper layer */
};

/* Whether a packet is one of the fraction that is encapsulated. */
static __always_inline int chosen(struct __sk_buff *skb, const struct ioam_scope *s, struct ioam_scope_counts *counts)
{
	if (s->sampling == IOAM_CHANCE)
		return s->k == ~0U || bpf_get_prandom_u32() < s->k;
	if (s->sampling == IOAM_FLOWS)
		return s->k == ~0U || bpf_get_hash_recalc(skb) < s->k;
	if (s->n < 2)
		return 1;
	return counts->turn++ % s->n < s->k;
}

/* Reads both ports of TCP or UDP; says whether there are any. */
static __always_inline int read_ports(struct __sk_buff *skb, const struct place *p, __u16 *ports)
{
	return has_ports(p->protocol) && p->upper && !bpf_skb_load_bytes(skb, p->upper, ports, 4);
}

/* Whether a packet has the source and the ports, each of its own end, that a scope asks for. */
static __always_inline int asked_flow(struct __sk_buff *skb, const struct ioam_scope *s, const struct place *p)
{
	__u64 from[2];
	__u16 ports[2];

	if (bpf_skb_load_bytes(skb, p->l2 + 8, from, sizeof(from)))
		return 0;
	if ((from[0] & s->source_mask[0]) != s->source[0] || (from[1] & s->source_mask[1]) != s->source[1])
		return 0;
	if (!s->source_port && !s->destination_port)
		return 1;
	if (!read_ports(skb, p, ports))
		return 0;
	return (!s->source_port || bpf_ntohs(ports[0]) == s->source_port) &&
	       (!s->destination_port || bpf_ntohs(ports[1]) == s->destination_port);
}

/* Whether a packet has the protocol, the ports, the source and the DSCP that a scope asks for. */
static __always_inline int asked(struct __sk_buff *skb, const struct ioam_scope *s, const struct place *p)
{
	__u8 head[2];
	__u16 ports[2];

	if (s->protocol && s->protocol != p->protocol)
		return 0;
	if (s->flow && !asked_flow(skb, s, p))
		return 0;
	if (s->dscp) {
		if (bpf_skb_load_bytes(skb, p->l2, head, 2) || ((head[0] << 4 | head[1] >> 4) & 0xfc) >> 2 != (s->dscp & 63))
			return 0;
	}
	if (s->port) {
		if (!read_ports(skb, p, ports))
			return 0;
		return bpf_ntohs(ports[0]) == s->port || bpf_ntohs(ports[1]) == s->port;
	}
	return 1;
}

/* Reads the Hop-by-Hop header that a packet has; says whether another one can come before it. */
static __always_inline int existing(struct __sk_buff *skb, struct place *p, const struct ioam_encap *e)
{
	__u8 head[8];
	__u32 run = 0;

	if (e->destination || bpf_skb_load_bytes(skb, p->l2 + IP6_SIZE, head, sizeof(head)))
		return 0;
	p->behind = head[0];
	p->old = (head[1] + 1U) * 8;
	/* Padding at the beginning: with the two octets that become padding it must not exceed 7. */
	if (head[2] == OPTION_PADN)
		run = head[3] + 2U;
	else
		while (run < 6 && head[(2 + run) & 7] == OPTION_PAD1)
			run++;
	p->cover = run >= 6 ? 8 : 0;
	p->clear = run == 7;
	return run <= LONGEST_PADDING && e->hop + p->old - p->cover <= LONGEST_HEADER;
}

/*
 * Flags for a packet that grows by so many octets; 0 if it would be too long. Segments of TCP get
 * shorter instead.
 */
static __always_inline __u64 room_flags(struct __sk_buff *skb, const struct place *p, __u32 more, __u32 mtu)
{
	const __u64 usual = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	__u32 segment = skb->gso_size, head = p->upper - p->l2;
	__u8 offset;

	if (!segment)
		return p->length + more > mtu ? 0 : usual;
	if (p->length + more > 0xffff + IP6_SIZE)
		return 0;
	if (p->protocol == PROTOCOL_TCP && p->upper && !bpf_skb_load_bytes(skb, p->upper + 12, &offset, 1)) {
		if (segment + head + (offset >> 4) * 4 + more <= mtu)
			return usual;
		return segment > more + 512 ? BPF_F_ADJ_ROOM_NO_CSUM_RESET : 0;
	}
	return segment + head + UDP_SIZE + more > mtu ? 0 : usual;
}

/* Fills in what is this node's of one option of a template. */
__attribute__((noinline)) int fill_item(struct __sk_buff *skb, __u32 encap, __u32 i)
{
	struct ioam_encap *e = bpf_map_lookup_elem(&ioam_encaps, &encap);
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();
	const struct ioam_item *item;
	struct ioam_namespace *ns;
	struct ioam_buffer *b;
	__u32 id, at;

	if (!e || !node || !w || i >= IOAM_ITEMS)
		return 0;
	b = &w->in;
	item = &e->item[i];
	id = item->namespace;
	at = IP6_WORDS + item->at;
	switch (item->kind) {
	case IOAM_TRACE:
	case IOAM_CARRIER:
		sample(skb, w, node, item->type);
		if (item->kind == IOAM_TRACE) {
			fill_in(id, at, item->type);
			break;
		}
		fill_carrier(id, at, item->type);
		count(IOAM_CARRIED);
		break;
	case IOAM_PROOF:
		ns = bpf_map_lookup_elem(&ioam_namespaces, &id);
		if (!ns)
			break;
		write_long(b, at, (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32());
		write_long(b, at + 2, 0);
		if (!ns->proof[read_long(b, at) & 1].prime) /* the other profile */
			b->words[(at + 1) & WORD_MASK] ^= bpf_htonl(1);
		step(b, ns, at);
		break;
	case IOAM_EDGE:
		sample(skb, w, node, item->type & ~TYPE_QUEUE);
		edge_begins(b, w, item, at);
		break;
	case IOAM_EXPORT:
		if (item->type & FLOW_ID)
			b->words[at & WORD_MASK] = bpf_htonl(bpf_get_hash_recalc(skb));
		if (item->type & EXPORT_SEQUENCE)
			b->words[(at + !!(item->type & FLOW_ID)) & WORD_MASK] = bpf_htonl(next_sequence(w, item->namespace, OF_EXPORTS));
		break;
	}
	return 0;
}

/* Copies the packet's IPv6 header and a template's headers to where they are filled in. */
static __always_inline int copy_headers(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_template *t, __u32 octets)
{
	__u64 *ip = (__u64 *)BEHIND((__u8 *)(long)skb->data, w->l2 & 15), *to = (__u64 *)w->in.words;

	if ((__u8 *)ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
		return 0;
	for (__u32 i = 0; i < IP6_LONGS; i++)
		to[i] = ip[i];
	for (__u32 i = 0; i < IOAM_TEMPLATE / 2 && i * 8 < octets; i++)
		to[IP6_LONGS + i] = t->longs[i];
	return 1;
}

/* Stores filled headers, the IPv6 header among them, in front of what the packet has. */
static __always_inline int put_in(struct __sk_buff *skb, const struct place *p, const struct ioam_encap *e, struct ioam_buffer *b, __u64 flags)
{
	__u32 hop = e->hop & OCTET_MASK, total = (hop + e->destination) & OCTET_MASK, more = total - p->cover;
	__u8 padding[2] = {OPTION_PADN, 0}, next = e->tunnel ? PROTOCOL_IP6 : p->old ? p->behind : p->next;
	__u32 payload = e->tunnel ? p->length + total : p->payload + more;

	if (total < 8)
		return 0;
	put_octet(b, 4, payload >> 8);
	put_octet(b, 5, payload);
	put_octet(b, 6, hop ? NEXTHDR_HOP : NEXTHDR_DEST);
	if (hop) {
		put_octet(b, IP6_SIZE, e->destination ? NEXTHDR_DEST : next);
		put_octet(b, IP6_SIZE + 1, (hop + p->old - p->cover) / 8 - 1);
	}
	if (e->destination)
		put_octet(b, IP6_SIZE + hop, next);
	if (e->tunnel) {
		if (bpf_skb_adjust_room(skb, IP6_SIZE + total, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6))
			return 0;
	} else if (more && bpf_skb_adjust_room(skb, more, BPF_ADJ_ROOM_NET, flags)) {
		return 0;
	}
	if (bpf_skb_store_bytes(skb, p->l2, b->words, upto(IOAM_OCTETS, IP6_SIZE + total), 0))
		return 0;
	if (p->old && !p->cover && bpf_skb_store_bytes(skb, p->l2 + IP6_SIZE + total, padding, 2, 0))
		return 0;
	return !(p->clear && bpf_skb_store_bytes(skb, p->l2 + IP6_SIZE + total, &padding[1], 1, 0));
}

/* Interfaces that a packet came and leaves by, as node data has them. */
static __always_inline void set_path(struct ioam_work *w, __u32 in, const struct ioam_near *out)
{
	w->from = in;
	w->egress = out ? out->id : 0xffff;
	w->wide_egress = out ? out->wide : NONE32;
}

/* Finds the upper layer behind extension headers. */
static __always_inline void find_upper(struct __sk_buff *skb, struct place *p)
{
	struct upper_layer upper = upper_layer_of(p->next);

	upper_layer_walk(skb, &upper, p->l2);
	p->protocol = upper.protocol;
	p->upper = upper.later ? 0 : p->l2 + upper.at;
}

/* Reads what the packet has. */
static __always_inline int read_place(struct __sk_buff *skb, struct place *p, __u8 *hop_limit)
{
	__u8 *ip = BEHIND((__u8 *)(long)skb->data, p->l2);

	if (ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
		return 0;
	p->payload = ip[4] << 8 | ip[5];
	p->next = p->protocol = ip[6];
	*hop_limit = ip[7];
	p->length = skb->len - p->l2;
	p->upper = p->l2 + IP6_SIZE;
	if (extension_is(p->next))
		find_upper(skb, p);
	return 1;
}

/*
 * Whether a packet may ask for Loopback or be Active. What is sent back goes to the source, which
 * must be this node; a copy of a super-packet would come from each of its segments; and options
 * that are there must not be nested (RFC 9322 section 4.1).
 */
static __always_inline int may_flag(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, const struct ioam_encap *e, const struct place *p, struct ioam_scope_counts *counts)
{
	if (e->flags & IOAM_FLAG_LOOPBACK && (skb->gso_size || (skb->ingress_ifindex && !e->tunnel) || extension_is(p->next))) {
		counts->no_room++;
		return 0;
	}
	if (!spend(w, node, p->length + e->hop + (e->tunnel ? IP6_SIZE : 0))) {
		counts->limited++;
		return 0;
	}
	return 1;
}

/* Encapsulates a packet of the nth scope that was chosen. */
__attribute__((noinline)) int encapsulate(struct __sk_buff *skb, __u32 nth)
{
	struct ioam_work *w = work();
	__u32 number = w ? w->chosen[nth & 1] : ~0U; /* of the scope; one place for two saves stack */
	struct ioam_scope *s = bpf_map_lookup_elem(&ioam_scopes, &number);
	struct ioam_scope_counts *counts = bpf_map_lookup_elem(&ioam_scope_counted, &number);
	struct ioam_settings *node = settings();
	struct ioam_template *t;
	struct ioam_encap *e;
	struct place p = {};
	struct ioam_near *dev;
	__u64 flags;
	__u8 hop_limit;

	if (!s || !counts || !s->encap || !w || !node)
		return 0;
	dev = near(w, skb->ifindex);
	p.l2 = dev->l2 & 15;
	if (!(dev->roles & IOAM_ROLE_EGRESS) || !read_place(skb, &p, &hop_limit) || !asked(skb, s, &p))
		return 0;
	counts->packets++;
	counts->octets += p.length;
	if (!chosen(skb, s, counts))
		return 0;
	number = s->carrier && socket_context(skb) ? s->carrier : s->encap; /* of the encapsulation */
	e = bpf_map_lookup_elem(&ioam_encaps, &number);
	t = bpf_map_lookup_elem(&ioam_templates, &number);
	if (!e || !t)
		return 0;
	/* Fragments have their own; a jumbogram states no length. */
	if (!p.payload || (!e->tunnel && ((p.next == NEXTHDR_HOP && !existing(skb, &p, e)) || (e->destination && p.next == NEXTHDR_DEST)))) {
		counts->no_room++;
		return 0;
	}
	flags = room_flags(skb, &p, e->hop + e->destination + (e->tunnel ? IP6_SIZE : 0) - p.cover, dev->mtu);
	if (!flags) {
		counts->too_long++;
		return 0;
	}
	if (e->flags && !may_flag(skb, w, node, e, &p, counts))
		return 0;
	if (s->shadow) {
		counts->encapsulated++;
		return 0;
	}
	w->sampled = w->at_exit = w->total = 0;
	w->l2 = p.l2;
	w->next = p.next;
	w->hop_limit = e->tunnel ? TUNNEL_HOP_LIMIT : hop_limit;
	set_path(w, skb->ingress_ifindex, dev);
	if (e->flows)
		describe(skb, w);
	if (!copy_headers(skb, w, t, e->hop + e->destination))
		return 0;
	if (e->tunnel)
		outer_header(&w->in, node, e);
	for (__u32 i = 0; i < IOAM_ITEMS && i < e->items; i++)
		fill_item(skb, number, i);
	if (put_in(skb, &p, e, &w->in, flags))
		counts->encapsulated++;
	else
		counts->failed++;
	return 0;
}

#endif /* WEIR_IOAM_ENCAPSULATE_H */
