/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Inserts options into packets of scopes.
 *
 *   | IPv6 | payload |                     | IPv6 | Hop-by-Hop | Destination | payload |
 *   | IPv6 | Hop-by-Hop | payload |   ->   | IPv6 | Hop-by-Hop (PadN of 2) rest of it | payload |
 *   | IPv6 | Destination | payload |       | IPv6 | Destination (PadN of 2) rest of it | payload |
 *
 * An existing header is extended at its start: the new header takes its next header and adds its
 * length, and the first two bytes of the old one become padding. The options of a template end at a
 * multiple of 8 bytes, so following options keep their alignment. The Destination header directly
 * follows the Hop-by-Hop header, in front of a Routing or Fragment header (RFC 8200 section 4.1).
 * The kernel inserts bytes only behind the IPv6 header, so an existing Hop-by-Hop header moves.
 */
#ifndef WEIR_IOAM_ENCAPSULATE_H
#define WEIR_IOAM_ENCAPSULATE_H

#include "cache.h"
#include "edges.h"
#include "export.h"
#include "flags.h"
#include "node_data.h"
#include "path.h"
#include "proof.h"
#include "sockets.h"
#include "tunnel.h"
#include "walk.h"

#define TCP_SIZE 20
#define UDP_SIZE 8
#define IP6_LONGS (IP6_SIZE / 8)
#define IP6_WORDS (IP6_SIZE / 4)

/* Reports whether the sampling of a scope selects this packet. */
static __always_inline int is_sampled(struct __sk_buff *skb, const struct ioam_scope *s, struct ioam_scope_counts *counts)
{
	if (s->sampling == IOAM_CHANCE)
		return s->k == ~0U || bpf_get_prandom_u32() < s->k;
	if (s->sampling == IOAM_FLOWS)
		return s->k == ~0U || bpf_get_hash_recalc(skb) < s->k;
	if (s->n < 2)
		return 1;
	return counts->turn++ % s->n < s->k;
}

/* Reads the ports of TCP or UDP; returns 0 without ports. */
static __always_inline int read_ports(struct __sk_buff *skb, const struct insertion *p, __u16 *ports)
{
	return has_ports(p->protocol) && p->upper && !bpf_skb_load_bytes(skb, p->upper, ports, 4);
}

/* Reports whether the source and the ports of a packet match a scope. */
static __always_inline int matches_flow(struct __sk_buff *skb, const struct ioam_scope *s, const struct insertion *p)
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

/* Reports whether a packet matches the protocol, ports, source and DSCP of a scope. */
static __always_inline int matches_conditions(struct __sk_buff *skb, const struct ioam_scope *s, const struct insertion *p)
{
	__u8 head[2];
	__u16 ports[2];

	if (s->protocol && s->protocol != p->protocol)
		return 0;
	if (s->flow && !matches_flow(skb, s, p))
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

/*
 * Reads an existing options header at a packet offset; reports whether bytes of options fit in
 * front of its own.
 */
static __always_inline int fits_existing(struct __sk_buff *skb, struct existing *old, __u32 at, __u32 more)
{
	__u8 head[8];
	__u32 run = 0;

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return 0;
	old->behind = head[0];
	old->size = (head[1] + 1U) * 8;
	if (!more)
		return at + old->size <= skb->len;
	/* Padding at the start must not exceed 7 bytes with the two that become padding. */
	if (head[2] == OPTION_PADN)
		run = head[3] + 2U;
	else
		while (run < 6 && head[(2 + run) & 7] == OPTION_PAD1)
			run++;
	old->cover = run >= 6 ? 8 : 0;
	old->clear = run == 7;
	return run <= MAX_PADDING && more + old->size - old->cover <= MAX_HEADER;
}

/* Reads the existing headers that get options; reports whether these fit. */
static __always_inline int find_place(struct __sk_buff *skb, struct insertion *p, const struct ioam_encap *e)
{
	__u32 at = p->l2 + IP6_SIZE;
	__u8 next = p->next;

	if (next == NEXTHDR_HOP) {
		if (!fits_existing(skb, &p->hop, at, e->hop))
			return 0;
		next = p->hop.behind;
		at += p->hop.size;
	}
	if (!e->destination)
		return 1;
	p->moved = p->hop.size - p->hop.cover;
	if (p->moved && e->hop + p->moved + e->destination > MAX_HEADER)
		return 0;
	return next != NEXTHDR_DEST || fits_existing(skb, &p->last, at, e->destination);
}

/*
 * Returns the flags of bpf_skb_adjust_room() for a growth in bytes, or 0 for a packet that would
 * exceed the MTU. TCP segments become shorter instead.
 */
static __always_inline __u64 growth_flags(struct __sk_buff *skb, const struct insertion *p, __u32 more, __u32 mtu)
{
	const __u64 usual = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	__u32 segment = skb->gso_size, head = p->upper - p->l2;
	__u8 offset;

	if (!segment)
		return p->length + more > mtu ? 0 : usual;
	if (p->payload && p->length + more > 0xffff + IP6_SIZE)
		return 0;
	if (p->protocol == PROTOCOL_TCP && p->upper && !bpf_skb_load_bytes(skb, p->upper + 12, &offset, 1)) {
		if (segment + head + (offset >> 4) * 4 + more <= mtu)
			return usual;
		return segment > more + 512 ? BPF_F_ADJ_ROOM_NO_CSUM_RESET : 0;
	}
	return segment + head + UDP_SIZE + more > mtu ? 0 : usual;
}

/* Fills in this node's fields of one option of a template. */
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
	at = IP6_WORDS + item->at + (item->kind == IOAM_EDGE ? w->moved / 4 : 0);
	switch (item->kind) {
	case IOAM_TRACE:
	case IOAM_CARRIER:
		sample(skb, w, node, item->type);
		if (item->kind == IOAM_TRACE) {
			fill_header(id, at, item->type);
			break;
		}
		fill_carrier(id, at, item->type);
		count(IOAM_CARRIED);
		break;
	case IOAM_PROOF:
		ns = bpf_map_lookup_elem(&ioam_namespaces, &id);
		if (!ns)
			break;
		write_long(b, at, next_proof_id(id));
		write_long(b, at + 2, 0);
		if (!ns->proof[read_long(b, at) & 1].prime) /* use the other profile */
			b->words[(at + 1) & WORD_MASK] ^= bpf_htonl(1);
		update_cumulative(b, ns, at);
		break;
	case IOAM_EDGE:
		sample(skb, w, node, item->type & ~TYPE_QUEUE);
		fill_edge(b, w, item, at);
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

/* Copies the packet's IPv6 header and a template's headers into in. */
__attribute__((noinline)) int copy_headers(struct __sk_buff *skb, __u32 encap, __u32 octets)
{
	struct ioam_template *t = bpf_map_lookup_elem(&ioam_templates, &encap);
	struct ioam_work *w = work();
	__u64 *ip, *to;

	if (!t || !w)
		return 0;
	ip = (__u64 *)AT_OFFSET((__u8 *)(long)skb->data, w->l2 & 15);
	to = (__u64 *)w->in.words;
	if ((__u8 *)ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
		return 0;
	for (__u32 i = 0; i < IP6_LONGS; i++)
		to[i] = ip[i];
	for (__u32 i = 0; i < IOAM_TEMPLATE / 2 && i * 8 < octets; i++)
		to[IP6_LONGS + i] = t->longs[i];
	return 1;
}

/*
 * Copies the packet's Hop-by-Hop header without its first bytes, covered ones, into in behind bytes
 * of hop, and the Destination options of a template behind it.
 */
__attribute__((noinline)) int copy_existing(struct __sk_buff *skb, __u32 encap, __u32 hop, __u32 cover)
{
	struct ioam_template *t = bpf_map_lookup_elem(&ioam_templates, &encap);
	struct ioam_work *w = work();
	__u32 from = hop / 8, to;
	__u64 *longs;

	if (!t || !w || !w->moved)
		return 0;
	longs = (__u64 *)w->in.words;
	if (bpf_skb_load_bytes(skb, (w->l2 & 15) + IP6_SIZE + cover, (__u8 *)w->in.words + bounded(MAX_HEADER, IP6_SIZE + hop), bounded_length(MAX_HEADER, w->moved)))
		return 0;
	to = IP6_LONGS + (hop + w->moved) / 8;
	for (__u32 i = 0; i < IOAM_TEMPLATE / 2 && i * 8 < w->destination; i++)
		longs[(to + i) & (IOAM_WORDS / 2 - 1)] = t->longs[(from + i) & (IOAM_TEMPLATE / 2 - 1)];
	return 1;
}

/* Writes the lengths and next headers of the headers in in; returns their bytes. */
static __always_inline __u32 join_headers(const struct insertion *p, const struct ioam_encap *e, struct ioam_buffer *b)
{
	__u32 hop = e->hop & OCTET_MASK, front = (hop + p->moved) & OCTET_MASK;
	__u8 next = e->tunnel ? PROTOCOL_IP6 : p->last.size ? p->last.behind : p->hop.size ? p->hop.behind : p->next;

	put_octet(b, 6, front ? NEXTHDR_HOP : NEXTHDR_DEST);
	if (front) {
		put_octet(b, IP6_SIZE, e->destination ? NEXTHDR_DEST : next);
		put_octet(b, IP6_SIZE + 1, (hop + p->hop.size - p->hop.cover) / 8 - 1);
	}
	if (e->destination) {
		put_octet(b, IP6_SIZE + front, next);
		put_octet(b, IP6_SIZE + front + 1, (e->destination + p->last.size - p->last.cover) / 8 - 1);
	}
	if (hop && p->moved && !p->hop.cover) {
		put_octet(b, IP6_SIZE + hop, OPTION_PADN);
		put_octet(b, IP6_SIZE + hop + 1, 0);
	} else if (p->moved && p->hop.clear) {
		put_octet(b, IP6_SIZE + hop, OPTION_PAD1);
	}
	return (front + e->destination) & OCTET_MASK;
}

/* Turns the start of an existing header at a packet offset into padding. */
static __always_inline int pad_existing(struct __sk_buff *skb, const struct existing *old, __u32 at)
{
	__u8 padding[2] = {OPTION_PADN, 0};

	if (old->size && !old->cover)
		return !bpf_skb_store_bytes(skb, at, padding, 2, 0);
	return !(old->clear && bpf_skb_store_bytes(skb, at, &padding[1], 1, 0));
}

/* Inserts the filled headers, and replaces the IPv6 header. */
static __always_inline int insert_headers(struct __sk_buff *skb, const struct insertion *p, const struct ioam_encap *e, struct ioam_buffer *b, __u64 flags)
{
	__u32 total = join_headers(p, e, b), more = total - p->moved - p->hop.cover - p->last.cover;
	__u32 payload = e->tunnel ? p->length + total : p->payload + more;

	if (total < 8)
		return 0;
	if (p->payload || e->tunnel) {
		put_octet(b, 4, payload >> 8);
		put_octet(b, 5, payload);
	}
	if (e->tunnel) {
		if (bpf_skb_adjust_room(skb, IP6_SIZE + total, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6))
			return 0;
	} else if (more && bpf_skb_adjust_room(skb, more, BPF_ADJ_ROOM_NET, flags)) {
		return 0;
	}
	if (bpf_skb_store_bytes(skb, p->l2, b->words, bounded_length(IOAM_OCTETS, IP6_SIZE + total), 0))
		return 0;
	return pad_existing(skb, e->destination ? &p->last : &p->hop, p->l2 + IP6_SIZE + total);
}

/* Sets the interfaces of a packet for its node data. */
static __always_inline void set_path(struct ioam_work *w, __u32 in, const struct ioam_cached_interface *out)
{
	w->from = in;
	w->egress = out ? out->id : 0xffff;
	w->wide_egress = out ? out->wide : NONE32;
}

/* Finds the upper layer behind extension headers. */
static __always_inline void find_upper(struct __sk_buff *skb, struct insertion *p)
{
	struct upper_layer upper = upper_layer_of(p->next);

	upper_layer_walk(skb, &upper, p->l2);
	p->protocol = upper.protocol;
	p->upper = upper.later ? 0 : p->l2 + upper.at;
}

/* Describes the packet before the insertion. */
static __always_inline int read_insertion(struct __sk_buff *skb, struct insertion *p, __u8 *hop_limit)
{
	__u8 *ip = AT_OFFSET((__u8 *)(long)skb->data, p->l2);

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
 * Reports whether a packet may have the flags of an encapsulation. Copies return to the source, so
 * it must be this node. A super-packet would return a copy per segment, and existing options must
 * not be nested (RFC 9322 section 4.1).
 */
static __always_inline int may_flag(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_settings *node, const struct ioam_encap *e, const struct insertion *p, struct ioam_scope_counts *counts)
{
	if (e->flags & IOAM_FLAG_LOOPBACK && (skb->gso_size || (skb->ingress_ifindex && !e->tunnel) || extension_is(p->next))) {
		counts->unflagged++;
		return 0;
	}
	if (!within_flag_rate(w, node, p->length + e->hop + (e->tunnel ? IP6_SIZE : 0))) {
		counts->limited++;
		return 0;
	}
	return 1;
}

/* Stores the destination of a packet, or of its tunnel, in w->address. */
static __always_inline int load_destination(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_encap *e, __u32 l2)
{
	if (e->tunnel) {
		__builtin_memcpy(w->address, e->exit, sizeof(w->address));
		return 1;
	}
	return !bpf_skb_load_bytes(skb, l2 + 24, w->address, sizeof(w->address));
}

/* The device's MTU now; the configured one if the kernel cannot look it up. */
static __always_inline __u32 device_mtu(struct __sk_buff *skb, __u32 configured)
{
	__u32 mtu = 0;

	return bpf_check_mtu(skb, 0, &mtu, 0, 0) >= 0 && mtu ? mtu : configured;
}

/*
 * Reports whether a packet without a payload length may get options: a BIG TCP super-packet. Its
 * segments get their own length. Until Linux 7.0 such packets start with a Hop-by-Hop header that
 * must stay alone in them (ipv6_has_hopopt_jumbo()).
 */
static __always_inline int may_extend(struct __sk_buff *skb, const struct insertion *p, const struct ioam_encap *e)
{
	return skb->gso_size && p->next == PROTOCOL_TCP && !e->tunnel;
}

/* Encapsulates a packet of the nth selected scope. */
__attribute__((noinline)) int encapsulate(struct __sk_buff *skb, __u32 nth)
{
	struct ioam_work *w = work();
	__u32 number = w ? w->selected[nth & 1] : ~0U; /* scope; the variable is reused below to save stack */
	struct ioam_scope *s = bpf_map_lookup_elem(&ioam_scopes, &number);
	struct ioam_scope_counts *counts = bpf_map_lookup_elem(&ioam_scope_counted, &number);
	struct ioam_settings *node = settings();
	struct ioam_encap *e;
	struct insertion *p;
	struct ioam_cached_interface *dev;
	__u32 mtu, more;
	__u64 flags;
	__u8 hop_limit;

	if (!s || !counts || !s->encap || !w || !node)
		return 0;
	p = &w->place; /* off the stack, which is short */
	__builtin_memset(p, 0, sizeof(*p));
	dev = lookup_interface(w, skb->ifindex);
	p->l2 = dev->l2 & 15;
	if (!(dev->roles & IOAM_ROLE_EGRESS) || !read_insertion(skb, p, &hop_limit) || !matches_conditions(skb, s, p))
		return 0;
	counts->packets++;
	counts->octets += p->length;
	if (!is_sampled(skb, s, counts))
		return 0;
	number = s->carrier && socket_context(skb) ? s->carrier : s->encap; /* encapsulation */
	e = bpf_map_lookup_elem(&ioam_encaps, &number);
	if (!e)
		return 0;
	if (!p->payload && !may_extend(skb, p, e)) {
		counts->jumbo++;
		return 0;
	}
	if (!e->tunnel && !find_place(skb, p, e)) {
		counts->no_room++;
		return 0;
	}
	more = e->hop + e->destination + (e->tunnel ? IP6_SIZE : 0) - p->hop.cover - p->last.cover;
	mtu = device_mtu(skb, dev->mtu);
	if (ioam_paths_known && p->length + more > MIN_MTU && load_destination(skb, w, e, p->l2))
		mtu = path_mtu(mtu);
	flags = growth_flags(skb, p, more, mtu);
	if (!flags) {
		counts->too_long++;
		return 0;
	}
	if (e->flags && !may_flag(skb, w, node, e, p, counts))
		return 0;
	if (s->shadow) {
		counts->encapsulated++;
		return 0;
	}
	w->sampled = w->at_exit = w->total = 0;
	w->l2 = p->l2;
	w->next = p->next;
	w->hop_limit = e->tunnel ? TUNNEL_HOP_LIMIT : hop_limit;
	set_path(w, skb->ingress_ifindex, dev);
	if (e->flows)
		describe_packet(skb, w);
	if (!copy_headers(skb, number, e->hop + e->destination))
		return 0;
	w->moved = p->moved;
	w->destination = e->destination;
	if (p->moved && !copy_existing(skb, number, e->hop, p->hop.cover)) {
		counts->no_room++;
		return 0;
	}
	if (e->tunnel)
		write_outer_header(&w->in, node, e);
	for (__u32 i = 0; i < IOAM_ITEMS && i < e->items; i++)
		fill_item(skb, number, i);
	if (insert_headers(skb, p, e, &w->in, flags))
		counts->encapsulated++;
	else
		counts->failed++;
	return 0;
}

#endif /* WEIR_IOAM_ENCAPSULATE_H */
