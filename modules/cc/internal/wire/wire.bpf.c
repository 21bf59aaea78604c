//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A link for tests: marks data packets periodically and reports the TCP segments of both directions
 * in order. The programs run on the sender's device: wire_sent at egress, wire_received at ingress.
 * IPv4 without options only.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.h"

char wire_license[] SEC("license") = "Dual BSD/GPL";

#define NEXT TC_ACT_UNSPEC /* continue with the next program */
#define SKB_HEADERS (ETH_HLEN + sizeof(struct iphdr))

/*
 * The first wire_marks of every wire_period data packets are marked. Tests change both at any time.
 */
__u32 wire_marks = 0;
__u32 wire_period = 1;
/* Lose the data packet with this number, from 1; 0 loses none. */
__u32 wire_lose = 0;
/* Reject the data packet with this number, like a full local queue. */
__u32 wire_refuse = 0;
__u32 wire_data = 0; /* data packets so far */

/* Every segment. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} wire_segments SEC(".maps");

const struct wire_segment *wire_unused_segment __attribute__((unused)); /* keeps the type for Go */

static __always_inline int report_segment(struct __sk_buff *skb, __u8 sent)
{
	struct wire_segment segment = {.sent = sent};
	struct iphdr ip;
	struct tcphdr tcp;
	__u8 nobody[ETH_ALEN] = {2, 0, 0, 0, 0, 1};
	int lose = 0, refuse = 0;

	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.ihl != 5 ||
	    ip.protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, SKB_HEADERS, &tcp, sizeof(tcp)))
		return NEXT;
	segment.octets = skb->len - SKB_HEADERS - tcp.doff * 4;
	segment.sequence = bpf_ntohl(sent ? tcp.seq : tcp.ack_seq);
	segment.capable = !!(ip.tos & 3);
	segment.echo = tcp.ece;
	segment.reduced = tcp.cwr;
	segment.syn = tcp.syn;
	if (sent && segment.octets) {
		__u32 number = __sync_fetch_and_add(&wire_data, 1), period = wire_period;
		if (period && number % period < wire_marks)
			segment.marked = bpf_skb_ecn_set_ce(skb) == 1;
		lose = wire_lose == number + 1;
		refuse = wire_refuse == number + 1;
	}
	bpf_ringbuf_output(&wire_segments, &segment, sizeof(segment), 0);
	if (lose) /* a drop here would be reported to the sender's TCP */
		bpf_skb_store_bytes(skb, 0, nobody, sizeof(nobody), 0);
	return refuse ? TC_ACT_SHOT : NEXT;
}

SEC("tc")
int wire_sent(struct __sk_buff *skb)
{
	return report_segment(skb, 1);
}

SEC("tc")
int wire_received(struct __sk_buff *skb)
{
	return report_segment(skb, 0);
}
