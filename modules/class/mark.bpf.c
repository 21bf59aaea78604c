//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks packets at the egress of devices, before the qdiscs, with the DSCP (RFC 2474) of the scope
 * selected by bpf/match_decide.h. Applications take no part, and forwarded packets are marked too.
 * The two ECN bits stay; the IPv4 checksum is updated incrementally (RFC 1624).
 *
 * A packet without a local socket is forwarded: if no scope matches its destination prefix, its
 * source prefix selects the scope.
 *
 * An as-asked scope (asked.h) marks replies with the DSCP of the requests, if it accepts that DSCP.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/match_packet.h"
#include "../../bpf/match_decide.h"
#include "../../bpf/upper_layer.h"
#include "class.h"
#include "packet.h"

char class_license[] SEC("license") = "Dual BSD/GPL";

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_settings);
} class_current SEC(".maps");

/* Scope to class; sized at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_scope);
} class_scopes SEC(".maps");

/* Scope to counters. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_counts);
} class_counters SEC(".maps");

#include "asked.h"

/* Marks a packet with its scope's DSCP, except in shadow, and counts it. */
static __always_inline void apply_class(struct __sk_buff *skb, const struct packet *p, const struct match_scopes *found, __u32 at,
				 const struct class_settings *settings)
{
	__u32 number = found->scope[at & (MATCH_SCOPES - 1)];
	struct match_order *order = match_order_of(found, at);
	struct class_scope *scope = bpf_map_lookup_elem(&class_scopes, &number);
	struct class_counts *counts = bpf_map_lookup_elem(&class_counters, &number);

	if (!order || !scope || !counts)
		return;
	__u32 dscp = scope->asked ? lookup_requested_dscp(skb, p, scope->asked) : scope->dscp;
	int shadow = order->flags & MATCH_ORDER_SHADOW;

	counts->packets++;
	counts->octets += p->octets;
	if (dscp >= CLASS_DSCPS)
		return;
	__u8 tos = dscp << 2 | (p->tos & 3), priority = settings->priority[dscp];

	if (!shadow && priority)
		skb->priority = priority - 1;
	if (tos == p->tos)
		return;
	if (shadow || !write_tos(skb, p, tos))
		counts->marked++;
	else
		counts->failed++;
}

static __always_inline void mark_packet(struct __sk_buff *skb, const struct class_settings *settings)
{
	struct match_scopes found = {};
	struct match_prefix to, from;
	struct packet p = {};
	__u32 at, real, kinds = settings->kinds;

	if (!parse_packet(skb, &p, &to, &from))
		return;
	match_own(skb, kinds, &found);
	match_path(skb, &to, kinds, &found);
	if (!skb->sk)
		match_path(skb, &from, kinds & MATCH_PREFIXES, &found);
	at = match_decides(&found, 1);
	if (at >= MATCH_NONE)
		return;
	real = match_decides(&found, 0);
	apply_class(skb, &p, &found, at, settings);
	if (real < MATCH_NONE && real != at)
		apply_class(skb, &p, &found, real, settings);
}

SEC("tc")
int class_mark(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct class_settings *settings = bpf_map_lookup_elem(&class_current, &zero);

	if (settings && settings->kinds)
		mark_packet(skb, settings);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int class_ask(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct class_settings *settings = bpf_map_lookup_elem(&class_current, &zero);

	if (settings && settings->asked)
		record_requested_dscp(skb, settings->asked);
	return TC_ACT_UNSPEC;
}
