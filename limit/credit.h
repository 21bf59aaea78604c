/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Credit: octets that a socket has been charged for in advance.
 *
 * Charging a packet to its scopes takes the clock and two locked operations a scope, for nothing where none of them is near
 * its limit. There, every scope ahead by half of its burst or more and its fair rate at its highest, a socket that keeps
 * sending is charged for its next packets together with this one. Until the end of the kernel's next tick they are passed
 * and counted, no more. No packet passes that no queue was charged for, and what is left in the end is forfeited. Processors
 * that pay ahead at once do not see each other, so a scope's sockets hold half its burst and a sixteenth of it per processor
 * at most.
 */
#ifndef WEIR_LIMIT_CREDIT_H
#define WEIR_LIMIT_CREDIT_H

#include "maps.h"
#include "packet.h"
#include "verdict.h"

#define CREDIT_TICKS 1 /* for how many ticks after this one credit is good */

static __always_inline __u32 expired(const struct credit *credit, __u32 ticks)
{
	return (__s32)(ticks - credit->until) > 0;
}

/* Takes octets from the credit, which several processors may do at once for a datagram socket; 0 if it does not suffice. */
static __always_inline int draw(struct credit *credit, __s32 octets)
{
	if (credit->left < octets)
		return 0;
	if (__sync_fetch_and_add(&credit->left, -octets) >= octets)
		return 1;
	__sync_fetch_and_add(&credit->left, octets);
	return 0;
}

/* Passes and counts a packet that the socket has credit for, or that no scope limits; 0 if it is to be charged. */
static __always_inline int spend(struct __sk_buff *skb, const struct packet *p, const struct limit_scopes *scopes,
				 struct credit *credit, __u32 direction)
{
	__u64 wire = wire_bytes(p, skb->len, credit->overhead);

	if (credit->interface != skb->ifindex || expired(credit, bpf_jiffies64()))
		return 0;
	if (credit->charged && !draw(credit, wire))
		return 0;
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= scopes->count)
			break;
		if (!(credit->charged & 1 << i))
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
	return 1;
}

/* Octets of the credit that are spent and stand in no rate measurement yet. */
static __always_inline __u32 spent(const struct credit *credit)
{
	return credit->paid - credit->left;
}

/* What is spent has been measured, and is not to be again. */
static __always_inline void account(struct credit *credit)
{
	credit->paid = credit->left;
}

/* As many of the octets as every scope that was charged allows a socket in advance. */
static __always_inline __u64 allowed_ahead(const struct share *shares, __u64 octets)
{
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		__u32 index = shares[i].index;
		struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);

		if (shares[i].taken && config && config->batch < octets)
			octets = config->batch;
	}
	return octets;
}

/*
 * Charges the scopes, which have just admitted a packet, for the next ones too: as much as the socket has used of its
 * credit until that expired, or twice as much as before if it is used up early, but no more than a scope allows.
 */
static __always_inline void pay_ahead(struct __sk_buff *skb, const struct share *shares, struct credit *credit)
{
	__u32 ticks = bpf_jiffies64(), charged = 0, early = !expired(credit, ticks), alike = 1, overhead = 0;
	__u64 wire = 0, octets = early ? 2ULL * credit->paid : spent(credit);

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		const struct share *share = &shares[i];

		if (!share->taken)
			continue;
		if (!charged) {
			wire = share->wire;
			overhead = share->overhead;
		}
		charged |= 1 << i;
		alike &= share->spare && share->overhead == overhead; /* the same packet has as many octets in all scopes */
	}
	octets = alike ? allowed_ahead(shares, early ? octets + 2 * wire : octets) : 0;
	if (octets < 2 * wire)
		octets = 0; /* not worth it */
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET && octets; i++) {
		__u32 index = shares[i].index;
		struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);
		struct limit_state *state = bpf_map_lookup_elem(&limit_states, &index);

		if (shares[i].taken && config && state)
			__sync_fetch_and_add(&state->finish_ns, octets * config->cost >> LIMIT_COST_SHIFT);
	}
	credit->paid = octets;
	credit->left = octets;
	credit->until = ticks + CREDIT_TICKS;
	credit->interface = skb->ifindex;
	credit->overhead = overhead;
	credit->charged = charged;
}

#endif
