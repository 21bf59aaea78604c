//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the rate of scopes without a standing queue.
 *
 * Each scope has a virtual queue: the time until all admitted bytes would have left a link of the
 * scope's rate.
 *
 *   now - burst        now            now + mark        now + drop - reserve   now + drop
 *        |--------------|----------------|-----------------------|-----------------|
 *         admit                           mark or reduce, with a  admit only small  drop
 *                                         rising probability      packets
 *
 * The queue is a number, advanced by compare-and-swap (GCRA); packets never wait in it.
 * Explicit-rate pacing keeps TCP senders below the rate: every few milliseconds one packet updates
 * the rate that a single flow of the scope may use (RCP: up with the unused share of the rate, down
 * with the queue), and the RTT callback of each socket sets it as SO_MAX_PACING_RATE. Marks,
 * reductions and drops are the safety net.
 *
 * Received packets cannot be paced: at ingress, receive windows (receive_window.h) and marks slow
 * senders down, and packets are dropped last if their loss would stall a sender (stall.h).
 *
 * cgroup_skb/egress returns: 1 pass, 2 reject with congestion notification (NET_XMIT_CN), 3 pass
 * and reduce the congestion window. Ingress: 1 pass, 0 drop.
 */
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <bpf/bpf_helpers.h>

#include "fair.h"
#include "fast_path.h"
#include "flow_cache.h"
#include "iterator.h"
#include "maps.h"
#include "packet.h"
#include "queue.h"
#include "quota.h"
#include "scopes.h"
#include "sockops.h"
#include "stall.h"
#include "verdict.h"

char limit_license[] SEC("license") = "Dual BSD/GPL";

/*
 * Returns the highest precedence that a child gave the packet; children come before their parents.
 */
static __always_inline __u8 precedence_of_children(const struct charge *charges, int place)
{
	__u8 upper = OWN;

	for (int i = 0; i < place; i++)
		if (charges[i].parent == (charges[place].index >> 1) + 1 && charges[i].precedence > upper)
			upper = charges[i].precedence;
	return upper;
}

/* Reports whether a prepaid packet needs no header fields: it is one segment of a stream. */
static __always_inline __u32 needs_no_headers(const struct packet *p, const struct socket_state *known)
{
	return known->stream && p->segments == 1;
}

/*
 * Charges a packet to the scopes with a bit set in the mask `which`, in order, until one drops it.
 */
static __always_inline __u32 charge_scopes(struct __sk_buff *skb, const struct packet *p, struct charges *charges, __u64 list, __u32 which,
					 __u32 direction, __u32 parents, __u32 *dropped_before)
{
	__u32 dropped = 0;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= count_of(list) || dropped)
			break;
		if (!(which & 1 << i))
			continue;
		charges->of[i].index = scope_of(list, i) * 2 + direction;
		charges->of[i].dropped_before = *dropped_before;
		if (parents)
			charges->of[i].child_precedence = precedence_of_children(charges->of, i);
		dropped = !charge_scope(skb, p, &charges->of[i]);
		*dropped_before |= charges->of[i].would_drop;
		if (charges->of[i].interval_over)
			end_interval(charges->of[i].index, p->now);
	}
	return dropped;
}

/*
 * Counts a packet in the charged scopes, or refunds them if it was dropped. Returns the strongest
 * action that a scope requests.
 */
static __always_inline int decide_actions(const struct packet *p, const struct charges *charges, __u32 dropped, __u32 dropped_before)
{
	int action = NOTHING;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (!charges->of[i].charged)
			continue;
		/* A shadow drop refunds the charges that a real drop would: those of shadow scopes. */
		if (dropped || (dropped_before && charges->of[i].shadow)) {
			refund(&charges->of[i]);
			continue;
		}
		int wanted = decide_action(p, &charges->of[i]);

		if (wanted > action)
			action = wanted;
	}
	return action;
}

static __always_inline int limit_packet(struct __sk_buff *skb, __u32 direction)
{
	struct charges charges;
	struct payment paid = {.each = ALL_SCOPES};
	struct packet p = {.segments = skb->gso_segs ? skb->gso_segs : 1};
	struct bpf_sock *sk = skb->sk;
	struct socket_state *known = 0;
	struct quota *quota = 0;
	__u64 first = 0; /* 64 bits: the verifier does not track a second variable in the other half of the stack slot */
	__u32 dropped = 0, dropped_before = 0, renewal = direction, parsed = 0, moved = 0;
	int action = NOTHING;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);

	if (!settings || !settings->generation)
		return 1;
	if (direction == LIMIT_INGRESS && skb->pkt_type == PACKET_LOOPBACK) /* never on a wire */
		return 1;
	if (sk)
		known = bpf_sk_storage_get(&limit_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	__u64 where = cache_key(settings->generation, skb->ifindex), list = 0;

	if (known)
		moved = has_moved(skb, settings, known, direction);
	if (!known || known->generation != settings->generation || moved || !needs_no_headers(&p, known)) {
		parse(skb, &p, direction);
		parsed = 1;
		if (known && sk && known->generation != settings->generation && !is_current(skb, settings, known))
			lookup_scopes(skb, &p, is_stream(sk, &p), settings, known);
		else if (known && moved)
			lookup_moved(skb, &p, settings, known, direction);
	}
	if (known && known->loopback != (skb->ifindex == LOOPBACK))
		known->loopback = skb->ifindex == LOOPBACK;
	list = known && known->stream ? known->list[direction & 1] : lookup_flow_scopes(skb, &p, settings, known);
	if (!count_of(list))
		return 1;
	count_overflow(list);
	if (known) {
		quota = &known->quota[direction];
		if (spend_quota(skb, &p, list, where, quota, &paid)) {
			if (!paid.each) {
				count_prepaid(&p, list, &paid, direction);
				return 1;
			}
		} else {
			paid.charged = 0;
			paid.each = ALL_SCOPES;
			if (quota->paid && begin_renewal(quota, settings->generation, direction))
				renewal |= BEGUN;
		}
	}
	if (!parsed)
		parse(skb, &p, direction);
	p.now = bpf_ktime_get_ns();
	__builtin_memset(&charges, 0, sizeof(charges));
	__u32 fast = charge_fast_path(skb, &p, &charges, list, paid.each | direction << LIMIT_SCOPES_PER_SOCKET);

	if (fast) {
		for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
			if (fast & 1 << i)
				end_interval(scope_of(list, i) * 2 + direction, p.now);
	} else {
		dropped = charge_scopes(skb, &p, &charges, list, paid.each, direction, settings->parents, &dropped_before);
		action = decide_actions(&p, &charges, dropped, dropped_before);
	}
	if (paid.charged && dropped)
		refund_quota(quota, &paid);
	else if (paid.charged)
		count_prepaid(&p, list, &paid, direction);
	else if (quota)
		renew_quota(&charges, quota, list, where, dropped | dropped_before ? renewal | DROPPED : renewal);
	if (dropped && known && direction == LIMIT_INGRESS)
		record_drop(skb, &p, known);
	if (dropped)
		return direction == LIMIT_EGRESS ? 2 : 0;
	if (action == MARK)
		bpf_skb_ecn_set_ce(skb);
	return direction == LIMIT_EGRESS && action == REDUCE ? 3 : 1;
}

SEC("cgroup_skb/egress")
int limit_egress(struct __sk_buff *skb)
{
	return limit_packet(skb, LIMIT_EGRESS);
}

SEC("cgroup_skb/ingress")
int limit_ingress(struct __sk_buff *skb)
{
	return limit_packet(skb, LIMIT_INGRESS);
}
