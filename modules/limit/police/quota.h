/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Prepaid quota: octets that a socket has been charged for in advance.
 *
 * Charging a packet takes the clock and two locked operations a scope, for nothing where a scope is
 * not near its limit. There, ahead by half of its burst or more and with its fair rate at its
 * highest, a socket that keeps sending is charged for its next packets together with this one.
 * Until the end of the kernel's next tick they are passed and counted in the scopes that are far
 * from their limits; the others are charged for each. No packet passes a scope that was not charged
 * for it, and what is left in the end expires. Processors that prepay at once do not see each
 * other, so a scope's sockets hold half its burst and a sixteenth of it per processor at most.
 */
#ifndef WEIR_LIMIT_QUOTA_H
#define WEIR_LIMIT_QUOTA_H

#include "maps.h"
#include "packet.h"
#include "verdict.h"

#define ALL_SCOPES ((1 << LIMIT_SCOPES_PER_SOCKET) - 1)
/* Flags of renew_quota, beside the direction. */
#define BEGUN 2   /* the renewal has begun */
#define DROPPED 4 /* a scope has dropped the packet, or would have */

static __always_inline __u32 expired(const struct quota *quota, __u32 ticks)
{
	return (__s32)(ticks - quota->until) > 0;
}

/* What a packet was paid for with. */
struct payment {
	__u64 number;  /* of the quota */
	__u32 wire;    /* octets */
	__u16 charged; /* bit i: scope i was charged for them */
	__u16 each;    /* bit i: it is charged for each packet */
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
 * Pays for a packet of the scopes in list by the socket's quota, but for those in paid->each. 0
 * where that does not suffice: then all are to be charged.
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

/* Gives back the octets of a packet that was dropped, unless the quota was renewed since. */
static __always_inline void refund_quota(struct quota *quota, const struct payment *paid)
{
	for (int i = 0; i < CAS_TRIES; i++) {
		__u64 word = *(volatile __u64 *)&quota->word;

		if (number(word) != paid->number || __sync_val_compare_and_swap(&quota->word, word, word + paid->wire) == word)
			return;
	}
}

/* Counts a packet in the scopes that were charged in advance. */
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
 * Begins to renew_quota a quota, which nobody can spend then; 0 if another processor does. What was
 * spent is added to the rates that its scopes measure, and decides how much the next may be: as
 * much as was used of one that has expired, or twice what was paid for one that has not. Global
 * like charge_scope, to be verified once.
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

/* Ends what begin_renewal has begun: from now on so many octets can be spent. */
static __always_inline void end_renewal(struct quota *quota, __u32 octets)
{
	quota->paid = octets;
	__sync_fetch_and_add(&quota->word, (1ULL << 32) + octets);
}

/* Octets that a scope lets a socket pay for in advance. */
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
 * Charges scopes that have just admitted a packet for the socket's next packets too, for as many
 * octets as follow from the last quota: those that are far from their limits and let a socket have
 * two packets or more, and in which a packet has as many octets as in the first of them. Where
 * others are charged for each packet, so are those in shadow, for what another drops in shadow they
 * do not count.
 */
static __always_inline void prepay(const struct charges *charges, struct quota *quota, __u64 list, __u64 where)
{
	__u32 ticks = bpf_jiffies64(), limits = 0, slack = 0, shadow = 0;
	__u64 least = 0, octets = quota->paid;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		const struct charge *charge = &charges->of[i];

		limits |= charge->charged << i;
		shadow |= charge->shadow << i;
		if (!charge->slack || (slack && charge->overhead != quota->overhead))
			continue;
		slack |= 1 << i;
		quota->overhead = charge->overhead;
		least = 2 * charge->wire;
	}
	if (slack != limits)
		slack &= ~shadow;
	if (!expired(quota, ticks))
		octets += least;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (slack & 1 << i && quota_of(&charges->of[i]) < octets)
			octets = quota_of(&charges->of[i]);
	if (octets < least || !slack)
		octets = 0; /* not worth it */
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
 * Renews the quota for packets of the scopes in list, which have charged or dropped this one; how
 * is the direction, BEGUN and DROPPED. Where no scope is far from its limit it is left alone.
 * Global too.
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
		prepay(charges, quota, list, where);
	return 0;
}

#endif
