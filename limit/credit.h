/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Credit: octets that a socket has been charged for in advance.
 *
 * Charging a packet takes the clock and two locked operations a scope, for nothing where a scope is not near its limit.
 * There, ahead by half of its burst or more and with its fair rate at its highest, a socket that keeps sending is charged
 * for its next packets together with this one. Until the end of the kernel's next tick they are passed and counted in the
 * scopes that are far from their limits; the others are charged for each. No packet passes a scope that was not charged
 * for it, and what is left in the end is forfeited. Processors that pay ahead at once do not see each other, so a scope's
 * sockets hold half its burst and a sixteenth of it per processor at most.
 */
#ifndef WEIR_LIMIT_CREDIT_H
#define WEIR_LIMIT_CREDIT_H

#include "maps.h"
#include "packet.h"
#include "verdict.h"

#define ALL_SCOPES ((1 << LIMIT_SCOPES_PER_SOCKET) - 1)
/* What renew is told, beside the direction. */
#define BEGUN 2   /* the renewal has begun */
#define REFUSED 4 /* a scope has refused the packet, or would have */
#define CREDIT_TICKS 1 /* for how many ticks after this one credit is good */

static __always_inline __u32 expired(const struct credit *credit, __u32 ticks)
{
	return (__s32)(ticks - credit->until) > 0;
}

/* What a packet was paid for with. */
struct payment {
	__u64 number;  /* of the credit */
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
 * Pays for a packet of the scopes in list by the socket's credit, but for those in paid->each. 0 where that does not suffice: then
 * all are to be charged.
 */
static __always_inline int spend(struct __sk_buff *skb, const struct packet *p, __u64 list, __u64 where, struct credit *credit,
				 struct payment *paid)
{
	__u32 ticks = bpf_jiffies64();

	for (int i = 0; i < CAS_TRIES; i++) {
		__u64 word = *(volatile __u64 *)&credit->word;

		barrier();
		if (number(word) & 1 || credit->list != list || credit->where != where || expired(credit, ticks))
			return 0;
		paid->wire = wire_bytes(p, skb->len, credit->overhead);
		paid->charged = credit->charged;
		paid->each = credit->each;
		paid->number = number(word);
		if (!(paid->charged | paid->each))
			return *(volatile __u64 *)&credit->word == word;
		if (left(word) < paid->wire)
			return 0;
		if (__sync_val_compare_and_swap(&credit->word, word, word - paid->wire) == word)
			return 1;
	}
	return 0;
}

/* Gives octets back that a packet was not let use, unless the credit is another one by now. */
static __always_inline void put_back(struct credit *credit, const struct payment *paid)
{
	for (int i = 0; i < CAS_TRIES; i++) {
		__u64 word = *(volatile __u64 *)&credit->word;

		if (number(word) != paid->number || __sync_val_compare_and_swap(&credit->word, word, word + paid->wire) == word)
			return;
	}
}

/* Counts a packet in the scopes that were charged in advance. */
static __always_inline void count_paid(const struct packet *p, __u64 list, const struct payment *paid, __u32 direction)
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
 * Begins to renew a credit, which nobody can spend then; 0 if another processor does. What was spent is added to the rates that
 * its scopes measure, and tells how much the next may be: as much as was used of one that has expired, or twice what was paid for
 * one that has not. Global like take, to be verified once.
 */
__attribute__((noinline)) int begin(struct credit *credit, __u32 generation, __u32 direction)
{
	if (!credit)
		return 0;
	__u64 word = *(volatile __u64 *)&credit->word;

	if (number(word) & 1 || __sync_val_compare_and_swap(&credit->word, word, (number(word) + 1) << 32) != word)
		return 0;
	__u32 used = credit->paid - left(word), charged = credit->charged;
	__u64 list = credit->list;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (!used || !(charged & 1 << i) || credit->where >> 32 != generation)
			continue;
		__u32 index = scope_of(list, i) * 2 + direction;
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (state)
			__sync_fetch_and_add(&state->window_bytes, used);
	}
	credit->paid = expired(credit, bpf_jiffies64()) ? used : 2 * credit->paid;
	credit->charged = 0;
	credit->each = ALL_SCOPES;
	return 1;
}

/* Ends what begin has begun: from now on so many octets can be spent. */
static __always_inline void finish(struct credit *credit, __u32 octets)
{
	credit->paid = octets;
	__sync_fetch_and_add(&credit->word, (1ULL << 32) + octets);
}

/* Octets that a scope lets a socket pay for in advance. */
static __always_inline __u32 batch_of(const struct share *share)
{
	__u32 index = share->index;
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);

	return config ? config->batch : 0;
}

static __always_inline void charge_ahead(__u32 index, __u64 octets)
{
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
	struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

	if (config && state)
		__sync_fetch_and_add(&state->finish_ns, octets * config->cost >> LIMIT_COST_SHIFT);
}

/*
 * Charges scopes that have just admitted a packet for the socket's next packets too, for as many octets as the last credit
 * says: those that are far from their limits and let a socket have two packets or more, and in which a packet has as many
 * octets as in the first of them. Where others are charged for each packet, so are those in shadow, for what another refuses in
 * shadow they do not count.
 */
static __always_inline void pay_ahead(const struct shares *shares, struct credit *credit, __u64 list, __u64 where)
{
	__u32 ticks = bpf_jiffies64(), limits = 0, far = 0, shadow = 0;
	__u64 least = 0, octets = credit->paid;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		const struct share *share = &shares->of[i];

		limits |= share->taken << i;
		shadow |= share->shadow << i;
		if (!share->far || (far && share->overhead != credit->overhead))
			continue;
		far |= 1 << i;
		credit->overhead = share->overhead;
		least = 2 * share->wire;
	}
	if (far != limits)
		far &= ~shadow;
	if (!expired(credit, ticks))
		octets += least;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (far & 1 << i && batch_of(&shares->of[i]) < octets)
			octets = batch_of(&shares->of[i]);
	if (octets < least || !far)
		octets = 0; /* not worth it */
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET && octets; i++)
		if (far & 1 << i)
			charge_ahead(shares->of[i].index, octets);
	credit->list = list;
	credit->where = where;
	credit->until = ticks + CREDIT_TICKS;
	credit->charged = far;
	credit->each = limits & ~far;
	finish(credit, octets);
}

/*
 * Renews the credit for packets of the scopes in list, which have charged or refused this one; how is the direction, BEGUN and
 * REFUSED. Where no scope is far from its limit it is left alone. Global too.
 */
__attribute__((noinline)) int renew(const struct shares *shares, struct credit *credit, __u64 list, __u64 where, __u32 how)
{
	__u32 taken = 0, far = 0;

	if (!shares || !credit)
		return 0;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		taken |= shares->of[i].taken;
		far |= shares->of[i].far;
	}
	if (how & REFUSED || (taken && !far)) {
		if (how & BEGUN)
			finish(credit, 0);
		return 0;
	}
	if (how & BEGUN || begin(credit, where >> 32, how & 1))
		pay_ahead(shares, credit, list, where);
	return 0;
}

#endif
