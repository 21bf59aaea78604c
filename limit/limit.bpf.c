//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the rate of scopes without building a queue.
 *
 * Every scope has a virtual queue: the time by which all admitted octets would have left a link of the scope's rate.
 *
 *   now - burst        now            now + mark        now + drop - reserve   now + drop
 *        |--------------|----------------|-----------------------|-----------------|
 *         admit                           mark or reduce, with a  admit only small  refuse
 *                                         rising probability      packets
 *
 * The queue is a number, advanced by compare-and-swap (GCRA), so packets never wait in it. TCP senders are kept below the
 * rate by explicit-rate pacing: every few milliseconds one packet updates the rate that a single flow of the scope may
 * use (RCP: up with the unused share of the rate, down with the queue), and the RTT callback of each socket sets it as
 * SO_MAX_PACING_RATE. Marks, reductions and refusals are the safety net behind it.
 *
 * What has arrived cannot be paced: at ingress receive windows (window.h), marks and acknowledgements that are held back
 * (hold.h) slow senders down, and a refusal, which is a loss there, spares what would stall them (stall.h).
 *
 * cgroup_skb/egress returns: 1 pass, 2 refuse and reduce the congestion window, 3 pass and reduce it. Ingress: 1 pass, 0 drop.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char limit_license[] SEC("license") = "Dual BSD/GPL";

#include "maps.h"
#include "packet.h"
#include "queue.h"
#include "scopes.h"
#include "remember.h"
#include "verdict.h"
#include "sockops.h"
#include "visit.h"
#include "credit.h"

/* What the scopes below the one at this place say of the packet; children come before their parents. */
static __always_inline __u8 given_by_children(const struct share *shares, int place)
{
	__u8 most = OWN;

	for (int i = 0; i < place; i++)
		if (shares[i].parent == (shares[place].index >> 1) + 1 && shares[i].standing > most)
			most = shares[i].standing;
	return most;
}

static __always_inline int limit_packet(struct __sk_buff *skb, __u32 direction)
{
	struct shares shares = {};
	struct payment paid = {.each = ALL_SCOPES};
	struct bpf_sock *sk = skb->sk;
	struct credit *credit = 0;
	struct packet p;
	__u32 first = 0, refused = 0, unseen = 0, renewal = direction;
	int wish = NOTHING;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);

	if (!settings || !settings->generation)
		return 1;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	parse(skb, &p, direction);
	struct socket_state *known = socket_of(skb, &p, sk, settings);
	__u64 where = place(settings, skb->ifindex), list = known && known->stream ? known->list : find_all(skb, &p, settings, known);

	if (!count_of(list))
		return 1;
	if (known && direction == LIMIT_INGRESS)
		judge_probe(known, &p);
	/* Not 2, by which the kernel would reduce the socket's own congestion window. */
	if (known && direction == LIMIT_EGRESS && held_back(skb, &p, known))
		return 0;
	if (known) {
		credit = &known->credit[direction];
		if (spend(skb, &p, list, where, credit, &paid)) {
			if (!paid.each) {
				count_paid(&p, list, &paid, direction);
				return 1;
			}
		} else {
			paid.charged = 0;
			paid.each = ALL_SCOPES;
			if (credit->paid && begin(credit, settings->generation, direction))
				renewal |= BEGUN;
		}
	}
	p.now = bpf_ktime_get_ns();
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= count_of(list) || refused)
			break;
		if (!(paid.each & 1 << i))
			continue;
		shares.of[i].index = scope_of(list, i) * 2 + direction;
		shares.of[i].unseen = unseen;
		shares.of[i].below = given_by_children(shares.of, i);
		refused = !take(skb, &p, &shares.of[i]);
		unseen |= shares.of[i].pretend;
		if (shares.of[i].due)
			close_window(shares.of[i].index, p.now);
	}
	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (!shares.of[i].taken)
			continue;
		/* A refusal in shadow undoes what it would have undone: the charges of scopes in shadow. */
		if (refused || (unseen && shares.of[i].shadow)) {
			give_back(&shares.of[i]);
			continue;
		}
		int want = settle(&p, &shares.of[i]);

		if (want > wish)
			wish = want;
	}
	if (paid.charged && refused)
		put_back(credit, &paid);
	else if (paid.charged)
		count_paid(&p, list, &paid, direction);
	else if (credit)
		renew(&shares, credit, list, where, refused | unseen ? renewal | REFUSED : renewal);
	if (refused && known && direction == LIMIT_INGRESS)
		remember_refusal(skb, &p, known);
	if (refused)
		return direction == LIMIT_EGRESS ? 2 : 0;
	if (wish == MARK)
		bpf_skb_ecn_set_ce(skb);
	return direction == LIMIT_EGRESS && wish == REDUCE ? 3 : 1;
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
