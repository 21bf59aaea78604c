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
#define CREDIT_TICKS 1 /* for how many ticks after this one credit is good */

static __always_inline __u32 expired(const struct credit *credit, __u32 ticks)
{
	return (__s32)(ticks - credit->until) > 0;
}

/* Gives octets back that a packet was not let use. */
static __always_inline void put_back(struct credit *credit, __s32 octets)
{
	__sync_fetch_and_add(&credit->left, octets);
}

/* Takes octets from the credit, which several processors may do at once for a datagram socket; 0 if it does not suffice. */
static __always_inline int draw(struct credit *credit, __s32 octets)
{
	if (credit->left < octets)
		return 0;
	if (__sync_fetch_and_add(&credit->left, -octets) >= octets)
		return 1;
	put_back(credit, octets);
	return 0;
}

/*
 * Pays for a packet by the socket's credit, with octets that are then known. What is still to be charged stands in
 * credit->each. 0 where the credit does not suffice: then all scopes are to be charged.
 */
static __always_inline int spend(struct __sk_buff *skb, const struct packet *p, struct credit *credit, __u32 *wire)
{
	if (credit->interface != skb->ifindex || expired(credit, bpf_jiffies64()))
		return 0;
	*wire = wire_bytes(p, skb->len, credit->overhead);
	return !(credit->charged | credit->each) || draw(credit, *wire);
}

/* Counts a packet in the scopes that were charged in advance. */
static __always_inline void count_paid(const struct packet *p, const struct limit_scopes *scopes, __u32 charged, __u32 wire,
				       __u32 direction)
{
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= scopes->count)
			break;
		if (!(charged & 1 << i))
			continue;
		__u32 index = scopes->scope[i] * 2 + direction;
		struct limit_counters *count = bpf_map_lookup_elem(&limit_counts, &index);

		if (!count)
			continue;
		count->packets++;
		count->segments += p->segments;
		count->bytes += wire;
		count->queue[0]++;
	}
}

/*
 * Adds what was spent of the credit to the rates that its scopes measure, once: of processors that find it, one wins. Returns
 * how much the next credit may be: as much as was used of one that has expired, or twice what was paid for one that did not.
 */
static __always_inline __u64 account(struct credit *credit, const struct limit_scopes *scopes, __u32 direction)
{
	__s32 paid = credit->paid, left = credit->left, used = paid - left;
	__u64 next = expired(credit, bpf_jiffies64()) ? used : 2ULL * paid;

	if (used <= 0 || __sync_val_compare_and_swap(&credit->paid, paid, left) != paid)
		return next;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= scopes->count)
			break;
		if (!(credit->charged & 1 << i))
			continue;
		__u32 index = scopes->scope[i] * 2 + direction;
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (state)
			__sync_fetch_and_add(&state->window_bytes, used);
	}
	return next;
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
 * shadow they do not count. Global like take, to be verified once.
 */
__attribute__((noinline)) int pay_ahead(struct __sk_buff *skb, const struct shares *shares, struct credit *credit, __u64 octets)
{
	if (!shares || !credit)
		return 0;
	__u32 ticks = bpf_jiffies64(), limits = 0, far = 0, shadow = 0, early = !expired(credit, ticks);
	struct credit next = {.until = ticks + CREDIT_TICKS, .interface = skb->ifindex};
	__u64 least = 0;

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		const struct share *share = &shares->of[i];

		limits |= share->taken << i;
		shadow |= share->shadow << i;
		if (!share->far || batch_of(share) < 2 * share->wire || (far && share->overhead != next.overhead))
			continue;
		far |= 1 << i;
		next.overhead = share->overhead;
		least = 2 * share->wire;
	}
	if (far != limits)
		far &= ~shadow;
	if (early)
		octets += least;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++)
		if (far & 1 << i && batch_of(&shares->of[i]) < octets)
			octets = batch_of(&shares->of[i]);
	if (octets < least || !far)
		octets = 0; /* not worth it */
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET && octets; i++)
		if (far & 1 << i)
			charge_ahead(shares->of[i].index, octets);
	next.paid = octets;
	next.left = octets;
	next.charged = far;
	next.each = limits & ~far;
	*credit = next;
	return 0;
}

#endif
