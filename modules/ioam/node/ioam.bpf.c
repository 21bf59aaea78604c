//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An IOAM node (RFC 9197, RFC 9326, RFC 9486) on the devices of a network namespace.
 *
 *              ioam_ingress                                      ioam_egress
 *   device ->  no ingress role: drop IOAM            stack ->   no egress role: drop IOAM           -> device
 *              namespaces that end here: add node    or         add node data to traces and proofs,
 *              data, export, remove options          forward    export postcards
 *              others: store the arrival time                   scopes: insert options
 *
 * Options are removed before the stack handles the packet, so its length fits the path behind the
 * domain.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char ioam_license[] SEC("license") = "Dual BSD/GPL";

#include "../../../bpf/checksum.h"
#include "../../../bpf/match_decide.h"
#include "../../../bpf/match_packet.h"
#include "../../../bpf/upper_layer.h"
#include "ioam.h"
#include "maps.h"
#include "sockets.h"
#include "cache.h"
#include "node_data.h"
#include "proof.h"
#include "edges.h"
#include "export.h"
#include "options.h"
#include "walk.h"
#include "traceparent.h"
#include "context.h"
#include "transit.h"
#include "exit.h"
#include "flags.h"
#include "loopback.h"
#include "tunnel.h"
#include "encapsulate.h"
#include "errors.h"

/* Enumerations for Go: the compiler omits unused types. */
const volatile struct {
	enum ioam_bounds bounds;
	enum ioam_role role;
	enum ioam_namespace_flag flag;
	enum ioam_count count;
	enum ioam_flag trace_flag;
	enum ioam_clock clock;
	enum ioam_item_kind item;
	enum ioam_sampling sampling;
	enum ioam_record_kind record;
	enum ioam_socket_option socket;
} ioam_enumerations = {};

#define TYPE_IP6 0x86dd
#define ETHERNET 14

/* Reads the next header and the hop limit; returns 0 for other packets than IPv6. */
static __always_inline int read_ip6(struct __sk_buff *skb, __u32 l2, __u8 *next, __u8 *hop_limit)
{
	__u8 *ip = AT_OFFSET((__u8 *)(long)skb->data, l2);

	if (ip + IP6_SIZE > (__u8 *)(long)skb->data_end) {
		if (bpf_skb_pull_data(skb, l2 + IP6_SIZE))
			return 0;
		ip = AT_OFFSET((__u8 *)(long)skb->data, l2);
		if (ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
			return 0;
	}
	*next = ip[6];
	*hop_limit = ip[7];
	return (ip[0] & 0xf0) == 0x60;
}

#define ERRORS (1ULL << NEXTHDR_ICMP)

/* Reads and processes the extension headers; returns 0 for packets to drop. */
static __always_inline int accept_options(struct __sk_buff *skb, struct ioam_work *w, __u8 next)
{
	int mistake = process_lone_option(skb, next);

	if (mistake == DONE) {
		mistake = read_headers(skb, next, 0);
		if (!mistake && w->at_exit)
			describe_packet(skb, w);
		if (!mistake)
			mistake = process_options(skb);
	}
	for (__u32 i = 0; i < MAX_DEFERRED && !mistake && i < w->deferred_count; i++)
		process_deferred(skb, i);
	/* Malformed headers without IOAM are left to the stack. */
	if (mistake && w->options)
		count(mistake);
	return !(mistake && w->options);
}

/* Removes and exports the options that end here; returns the packet's verdict. */
static __always_inline int end_options(struct __sk_buff *skb, struct ioam_work *w, __u8 next, __u8 hop_limit)
{
	struct ioam_settings *node = settings();

	w->at_exit = 1;
	w->hop_limit = hop_limit;
	set_path(w, skb->ifindex, 0);
	if (!accept_options(skb, w, next))
		return TC_ACT_SHOT;
	if (!w->ending || !node)
		return TC_ACT_UNSPEC;
	w->record.time = utc(w, node, w->sampled ? w->now : bpf_ktime_get_ns());
	w->record.proof = w->proof;
	export_record(&w->record, w->total, IOAM_RECORD_EXIT | (node->contexts ? append_context(skb) : 0));
	if (w->strict && w->proof != 1) {
		count(IOAM_UNPROVEN);
		return TC_ACT_SHOT;
	}
	if (w->active) {
		count(IOAM_TERMINATED);
		return TC_ACT_SHOT;
	}
	if (is_tunnelled(skb, w, node) ? !remove_outer_header(skb, w) : !remove_options(skb, w)) {
		count(IOAM_FAILED);
		return TC_ACT_SHOT;
	}
	count(IOAM_REMOVED);
	return TC_ACT_UNSPEC;
}

/* Verdict for a received packet with extension headers. */
__attribute__((noinline)) int ingress_verdict(struct __sk_buff *skb, __u32 next, __u32 hop_limit)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = node ? current_work(node) : 0;
	struct ioam_cached_interface *dev;

	if (!node || !w)
		return TC_ACT_UNSPEC;
	dev = lookup_interface(w, skb->ifindex);
	if (!dev->configured)
		return TC_ACT_UNSPEC;
	w->l2 = dev->l2 & 15;
	w->at_exit = 1;
	if (!(dev->roles & IOAM_ROLE_INGRESS)) {
		int mistake = read_headers(skb, next, 1);

		if (!mistake)
			mistake = find_ioam(w);
		if (!w->options && mistake != IOAM_MANY)
			return TC_ACT_UNSPEC;
		count(IOAM_FROM_OUTSIDE);
		return TC_ACT_SHOT;
	}
	if (is_destination_only(next))
		return read_packet_context(skb, next);
	if (node->loops && next == NEXTHDR_HOP) {
		int verdict = loopback_verdict(skb);

		if (verdict != DONE)
			return verdict;
	}
	w->ending = 0;
	if (node->removes && end_options(skb, w, next, hop_limit) == TC_ACT_SHOT)
		return TC_ACT_SHOT;
	if (next == NEXTHDR_HOP && !w->ending)
		bpf_skb_set_tstamp(skb, bpf_ktime_get_ns(), BPF_SKB_TSTAMP_DELIVERY_MONO);
	return w->ending ? TC_ACT_UNSPEC : read_packet_context(skb, next);
}

static __always_inline int ingress(struct __sk_buff *skb, __u32 l2)
{
	__u8 next, hop_limit;

	if (skb->protocol != bpf_htons(TYPE_IP6) || !read_ip6(skb, l2, &next, &hop_limit))
		return TC_ACT_UNSPEC;
	if (next == PROTOCOL_TCP)
		return read_packet_context(skb, next);
	if (next == NEXTHDR_ICMP)
		ingress_error(skb, l2);
	if (!extension_is(next))
		return TC_ACT_UNSPEC;
	return ingress_verdict(skb, next, hop_limit);
}

/* For devices with an Ethernet header, and for those without a link-layer header (bare). */
SEC("tc")
int ioam_ingress(struct __sk_buff *skb)
{
	return ingress(skb, ETHERNET);
}

SEC("tc")
int ioam_ingress_bare(struct __sk_buff *skb)
{
	return ingress(skb, 0);
}

/* Verdict for a packet with extension headers on its way to a device. */
static __always_inline int forward_verdict(struct __sk_buff *skb, struct ioam_work *w, const struct ioam_cached_interface *dev, __u8 next, __u8 hop_limit)
{
	w->l2 = dev->l2 & 15;
	w->at_exit = 0;
	w->hop_limit = hop_limit;
	if (!(dev->roles & IOAM_ROLE_EGRESS)) {
		if (read_headers(skb, next, 1) || find_ioam(w) || w->options) {
			count(IOAM_TO_OUTSIDE);
			return TC_ACT_SHOT;
		}
		return TC_ACT_UNSPEC;
	}
	if (next != NEXTHDR_HOP && is_destination_only(next))
		return TC_ACT_UNSPEC;
	set_path(w, skb->ingress_ifindex, dev);
	if (next == NEXTHDR_HOP && transit_verdict(skb, w->l2, hop_limit) != DONE)
		return TC_ACT_UNSPEC;
	if (!accept_options(skb, w, next))
		return TC_ACT_SHOT;
	if (w->dirty && bpf_skb_store_bytes(skb, w->l2 + IP6_SIZE, w->in.words, bounded_length(IOAM_OCTETS, w->total), 0))
		count(IOAM_FAILED);
	return TC_ACT_UNSPEC;
}

/*
 * Adds the scope of the destination's prefix. The trie lookup is the most expensive step of the
 * selection, so its results are cached until the settings change.
 */
static __always_inline int match_destination(struct __sk_buff *skb, struct ioam_work *w, __u32 l2, struct match_scopes *found)
{
	__u8 *ip = AT_OFFSET((__u8 *)(long)skb->data, l2);
	struct ioam_cached_scope *known;
	__u32 scope;

	if (ip + IP6_SIZE > (__u8 *)(long)skb->data_end)
		return -1;
	__builtin_memcpy(w->address, ip + 24, sizeof(w->address));
	known = &w->scopes[bounded(CACHED_SCOPES, w->address[0] >> 56 ^ w->address[1] >> 56 ^ w->address[1])];
	if (!known->valid || known->address[0] != w->address[0] || known->address[1] != w->address[1]) {
		__u32 *here;

		w->remote.length = 128;
		__builtin_memcpy(w->remote.address, w->address, sizeof(w->address));
		here = bpf_map_lookup_elem(&scope_prefixes, &w->remote);
		known->address[0] = w->address[0];
		known->address[1] = w->address[1];
		known->scope = here ? *here + 1 : 0;
		known->valid = 1;
	}
	if (!known->scope)
		return 0;
	scope = known->scope - 1;
	/* Forwarded packets have no socket; most others have one of this network namespace. */
	if (!skb->sk || (scope_netns && bpf_get_netns_cookie(skb) == scope_netns))
		match_add(found, &scope);
	else
		match_add_here(skb, found, &scope);
	return 0;
}

/*
 * Adds the scope of the device. The device belongs to this network namespace, so the socket need
 * not: forwarded packets have none.
 */
static __always_inline void match_device(struct __sk_buff *skb, struct match_scopes *found)
{
	__u32 index = skb->ifindex;

	match_add(found, bpf_map_lookup_elem(&scope_interfaces, &index));
}

/*
 * Selects the deciding scope, preceded by a shadow scope, which only counts. Returns the number of
 * scopes. encapsulate() runs outside, because this function fills its stack.
 */
__attribute__((noinline)) int select_scopes(struct __sk_buff *skb, __u32 l2)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = node ? current_work(node) : 0;
	struct match_scopes found = {};
	__u32 at, real;

	if (!node || !w)
		return 0;
	if (node->kinds & ~(MATCH_PREFIXES | MATCH_INTERFACES))
		match_own(skb, node->kinds, &found);
	if (node->kinds & MATCH_PREFIXES && match_destination(skb, w, l2 & 15, &found))
		return 0;
	if (node->kinds & MATCH_INTERFACES)
		match_device(skb, &found);
	if (!found.count)
		return 0;
	w->selected[0] = found.scope[0];
	if (found.count == 1) /* shadow or not */
		return 1;
	at = match_decides(&found, 1);
	if (at >= MATCH_NONE)
		return 0;
	real = match_decides(&found, 0);
	w->selected[0] = found.scope[at & (MATCH_SCOPES - 1)];
	if (real >= MATCH_NONE || real == at)
		return 1;
	w->selected[1] = found.scope[real & (MATCH_SCOPES - 1)];
	return 2;
}

/* Verdict for a sent packet with extension headers or ICMPv6. */
__attribute__((noinline)) int egress_verdict(struct __sk_buff *skb, __u32 next, __u32 hop_limit)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = node ? current_work(node) : 0;
	struct ioam_cached_interface *dev;

	if (!w)
		return TC_ACT_UNSPEC;
	dev = lookup_interface(w, skb->ifindex);
	if (!dev->configured)
		return TC_ACT_UNSPEC;
	if (next != NEXTHDR_ICMP)
		return forward_verdict(skb, w, dev, next, hop_limit);
	if (!(dev->roles & IOAM_ROLE_EGRESS))
		clear_error(skb, dev->l2 & 15);
	return TC_ACT_UNSPEC;
}

static __always_inline int egress(struct __sk_buff *skb, __u32 l2)
{
	struct ioam_settings *node = settings();
	__u8 next, hop_limit;

	if (skb->protocol != bpf_htons(TYPE_IP6) || !node || !read_ip6(skb, l2, &next, &hop_limit))
		return TC_ACT_UNSPEC;
	if (extension_or(next, ERRORS) && egress_verdict(skb, next, hop_limit) == TC_ACT_SHOT)
		return TC_ACT_SHOT;
	if (node->kinds) {
		int scopes = select_scopes(skb, l2);

		if (scopes > 0)
			encapsulate(skb, 0);
		if (scopes > 1)
			encapsulate(skb, 1);
	}
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ioam_egress(struct __sk_buff *skb)
{
	return egress(skb, ETHERNET);
}

SEC("tc")
int ioam_egress_bare(struct __sk_buff *skb)
{
	return egress(skb, 0);
}
