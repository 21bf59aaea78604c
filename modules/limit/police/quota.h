/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Prepaid quota: bytes that a socket has been charged for in advance.
 *
 * Charging a packet costs a clock read and two locked operations per scope, needlessly if the scope
 * is far below its limit: ahead by at least half of its burst, with its fair rate at the maximum. A
 * socket in such scopes prepays its next packets together with the current one. Until the end of
 * the next kernel tick they pass and are counted in the prepaid scopes; other scopes charge each
 * packet. No packet passes an uncharged scope, and the rest of a quota expires. CPUs that prepay at
 * once do not see each other, so the sockets of a scope hold at most half its burst plus a
 * sixteenth per CPU.
 */
#ifndef WEIR_LIMIT_QUOTA_H
#define WEIR_LIMIT_QUOTA_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "packet.h"
#include "queue.h"
#include "scopes.h"
#include "verdict.h"

#define ALL_SCOPES ((1 << LIMIT_SCOPES_PER_SOCKET) - 1)
/* Flags of renew_quota, in addition to the direction. */
#define BEGUN 2   /* the renewal has begun */
#define DROPPED 4 /* a scope has dropped the packet, or would have */

static __always_inline __u32 expired(const struct quota *quota, __u32 ticks)
{
	return (__s32)(ticks - quota->until) > 0;
}

/* Payment of a packet. */
struct payment {
	__u64 number;  /* number of the quota */
	__u32 wire;    /* octets */
	__u16 charged; /* bit i: scope i is prepaid */
	__u16 each;    /* bit i: scope i is charged per packet */
};

static __always_inline __u32 left(__u64 word)
{
	return word;
}

static __always_inline __u64 number(__u64 word)
{
	return word >> 32;
}

/*
 * Pays for a packet from the quota of the socket, except for the scopes in paid->each. Returns 0 if
 * the quota does not suffice: all scopes must be charged.
 */
static __always_inline int spend_quota(struct __sk_buff *skb, const struct packet *p, __u64 list, __u64 where, struct quota *quota,
				 struct payment *paid)
{
	__u32 ticks = bpf_jiffies64();

	for (int i = 0; i < CAS_TRIES; i++) {
		__u64 word = *(volatile __u64 *)&quota->word;

		barrier();
		if (number(word) & 1 || quota->list != list || quota->where != where || expired(quota, ticks))
			return 0;
		paid->wire = wire_bytes(p, skb->len, quota->overhead);
		paid->charged = quota->charged;
		paid->each = quota->each;
		paid->number = number(word);
		if (!(paid->charged | paid->each))
			return *(volatile __u64 *)&quota->word == word;
		if (left(word) < paid->wire)
			return 0;
		if (__sync_val_compare_and_swap(&quota->word, word, word - paid->wire) == word)
			return 1;
	}
	return 0;
}

/* Refunds the bytes of a dropped packet, unless the quota was renewed since. */
static __always_inline void refund_quota(struct quota *quota, const struct payment *paid)
{
	for (int i = 0; i < CAS_TRIES; i++) {
		__u64 word = *(volatile __u64 *)&quota->word;

		if (number(word) != paid->number || __sync_val_compare_and_swap(&quota->word, word, word + paid->wire) == word)
			return;
	}
}

/* Counts a packet in the prepaid scopes. */
static __always_inline void count_prepaid(const struct packet *p, __u64 list, const struct payment *paid, __u32 direction)
{
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (!(paid->charged & 1 << i))
			continue;
		__u32 index = scope_of(list, i) * 2 + direction;
		struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

		if (!count)
			continue;
		count_admitted(count, p, paid->wire);
		count->queue[0]++;
	}
}

/*
 * Begins the renewal of a quota, which blocks spending; returns 0 if another CPU renews it. Adds
 * the spent bytes to the measured rates of its scopes. The maximum of the next quota is the spent
 * bytes of an expired one, or twice the prepaid bytes otherwise. A global function, verified once.
 */
__attribute__((noinline)) int begin_renewal(struct quota *quota, __u32 generation, __u32 direction)
{
	if (!quota)
		return 0;
	__u64 word = *(volatile __u64 *)&quota->word;

	if (number(word) & 1 || __sync_val_compare_and_swap(&quota->word, word, (number(word) + 1) << 32) != word)
		return 0;
	__u32 used = quota->paid - left(word), charged = quota->charged;
	__u64 list = quota->list;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (!used || !(charged & 1 << i) || quota->where >> 32 != generation)
			continue;
		__u32 index = scope_of(list, i) * 2 + direction;
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (state)
			__sync_fetch_and_add(&state->interval_bytes, used);
	}
	quota->paid = expired(quota, bpf_jiffies64()) ? used : 2 * quota->paid;
	quota->charged = 0;
	quota->each = ALL_SCOPES;
	return 1;
}

/* Ends the renewal with a number of spendable bytes. */
static __always_inline void end_renewal(struct quota *quota, __u32 octets)
{
	quota->paid = octets;
	__sync_fetch_and_add(&quota->word, (1ULL << 32) + octets);
}

/* Returns the maximum quota of a socket in the scope, in bytes. */
static __always_inline __u32 quota_of(const struct charge *charge)
{
	__u32 index = charge->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);

	return config ? config->quota : 0;
}

static __always_inline void charge_prepaid(__u32 index, __u64 octets)
{
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	if (config && state)
		__sync_fetch_and_add(&state->finish_ns, octets * config->cost >> LIMIT_COST_SHIFT);
}

/*
 * Charges the scopes that have just admitted a packet for the next packets of the socket: scopes
 * with slack, a maximum quota of two packets and the same overhead as the first one. If other
 * scopes are charged per packet, shadow scopes are too, since they must not count packets that
 * another scope drops in shadow.
 */
static __always_inline void charge_quota(const struct charges *charges, struct quota *quota, __u64 list, __u64 where)
{
	__u32 ticks = bpf_jiffies64(), limits = 0, slack = 0, shadow = 0;
	__u64 lower = 0, octets = quota->paid;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		const struct charge *charge = &charges->of[i];

		limits |= charge->charged << i;
		shadow |= charge->shadow << i;
		if (!charge->slack || (slack && charge->overhead != quota->overhead))
			continue;
		slack |= 1 << i;
		quota->overhead = charge->overhead;
		lower = 2 * charge->wire;
	}
	if (slack != limits)
		slack &= ~shadow;
	if (!expired(quota, ticks))
		octets += lower;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (slack & 1 << i && quota_of(&charges->of[i]) < octets)
			octets = quota_of(&charges->of[i]);
	if (octets < lower || !slack)
		octets = 0; /* too few */
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET && octets; i++)
		if (slack & 1 << i)
			charge_prepaid(charges->of[i].index, octets);
	quota->list = list;
	quota->where = where;
	quota->until = ticks + tuned.quota_ticks;
	quota->charged = slack;
	quota->each = limits & ~slack;
	end_renewal(quota, octets);
}

/*
 * Renews the quota for packets of the scopes in list; how is the direction, BEGUN and DROPPED.
 * Without a scope with slack the quota stays. A global function, verified once.
 */
__attribute__((noinline)) int renew_quota(const struct charges *charges, struct quota *quota, __u64 list, __u64 where, __u32 how)
{
	__u32 charged = 0, slack = 0;

	if (!charges || !quota)
		return 0;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		charged |= charges->of[i].charged;
		slack |= charges->of[i].slack;
	}
	if (how & DROPPED || (charged && !slack)) {
		if (how & BEGUN)
			end_renewal(quota, 0);
		return 0;
	}
	if (how & BEGUN || begin_renewal(quota, where >> 32, how & 1))
		charge_quota(charges, quota, list, where);
	return 0;
}

#endif
