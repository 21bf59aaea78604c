//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks packets that leave by a device with the differentiated services code point (DSCP, RFC 2474)
 * of the scope that decides (bpf/match_decide.h), at the device's egress before its qdiscs: whoever
 * sends needs neither know nor permit it, and forwarded packets are marked as well. ECN's two bits
 * stay, and IPv4's checksum is corrected by the difference (RFC 1624).
 *
 * A packet that has no socket here is forwarded: the prefix that it comes from tells its scope
 * where the one that it goes to does not.
 *
 * A scope that answers as it is asked (asked.h) gives the DSCP with which the flow's other end came
 * last, and nothing where that was none that may be asked for.
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

/* Scope to its class; its size is set when it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_scope);
} class_scopes SEC(".maps");

/* Scope to what was done. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_counts);
} class_counters SEC(".maps");

#include "asked.h"

/* Gives a packet its scope's DSCP, as far as that is in force, and counts it. */
static __always_inline void give(struct __sk_buff *skb, const struct packet *p, const struct match_scopes *found, __u32 at,
				 const struct class_settings *settings)
{
	__u32 number = found->scope[at & (MATCH_SCOPES - 1)];
	struct match_order *order = match_order_of(found, at);
	struct class_scope *scope = bpf_map_lookup_elem(&class_scopes, &number);
	struct class_counts *counts = bpf_map_lookup_elem(&class_counters, &number);

	if (!order || !scope || !counts)
		return;
	__u32 dscp = scope->asked ? asked_dscp(skb, p, scope->asked) : scope->dscp;
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
	if (shadow || !write(skb, p, tos))
		counts->marked++;
	else
		counts->failed++;
}

static __always_inline void mark(struct __sk_buff *skb, const struct class_settings *settings)
{
	struct match_scopes found = {};
	struct match_prefix to, from;
	struct packet p = {};
	__u32 at, real, kinds = settings->kinds;

	if (!read(skb, &p, &to, &from))
		return;
	match_own(skb, kinds, &found);
	match_path(skb, &to, kinds, &found);
	if (!skb->sk)
		match_path(skb, &from, kinds & MATCH_PREFIXES, &found);
	at = match_decides(&found, 1);
	if (at >= MATCH_NONE)
		return;
	real = match_decides(&found, 0);
	give(skb, &p, &found, at, settings);
	if (real < MATCH_NONE && real != at)
		give(skb, &p, &found, real, settings);
}

SEC("tc")
int class_mark(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct class_settings *settings = bpf_map_lookup_elem(&class_current, &zero);

	if (settings && settings->kinds)
		mark(skb, settings);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int class_ask(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct class_settings *settings = bpf_map_lookup_elem(&class_current, &zero);

	if (settings && settings->asked)
		asked_remember(skb, settings->asked);
	return TC_ACT_UNSPEC;
}
