/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fields of the kernel's TCP structures that the programs use. CO-RE finds them by name on the
 * running kernel, so their order and omitted fields do not matter.
 */
#ifndef WEIR_CC_KERNEL_H
#define WEIR_CC_KERNEL_H

#include <linux/types.h>

#define KERNEL __attribute__((preserve_access_index))

enum { TCP_SYN_RECV = 3, TCP_CLOSE = 7, TCP_LISTEN = 10 };

/* Bits of tcp_sock.ecn_flags. */
#define ECN_NEGOTIATED 0x11 /* RFC 3168, or accurate ECN (Linux 6.18) */
#define ECN_ECHO       0x04 /* set ECE in every acknowledgment */

#define FAMILY_IPV6 10

struct net {
	__u64 net_cookie;
} KERNEL;

typedef struct {
	struct net *net; /* absent without network namespaces */
} KERNEL possible_net_t;

struct in6_addr___kernel {
	union {
		__be32 u6_addr32[4];
	} in6_u;
} KERNEL;

struct sock_common {
	possible_net_t skc_net;
	unsigned short skc_family;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	struct in6_addr___kernel skc_v6_daddr;
	struct in6_addr___kernel skc_v6_rcv_saddr;
	unsigned char skc_state;
	__be16 skc_dport;
	__u16 skc_num;
} KERNEL;

struct net_device {
	int ifindex;
} KERNEL;

struct dst_entry {
	struct net_device *dev;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache; /* cached route; 0 before the first packet and during a lookup */
	unsigned long sk_pacing_rate; /* bytes/s */
	__u32 sk_pacing_status;
} KERNEL;

struct inet_sock {
	struct sock sk;
} KERNEL;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_setsockopt : 1;
	struct {
		__u8 pending;
		__u32 lrcvtime; /* jiffies at the last received data */
	} icsk_ack;
	__u64 icsk_ca_priv[13];
} KERNEL;

/* TCP options of the connection and of the last segment. */
struct tcp_options_received {
	__u32 rcv_tsval;
	__u32 rcv_tsecr; /* without the connection's offset */
	__u16 saw_tstamp : 1;
	__u16 tstamp_ok : 1;
} KERNEL;

struct rb_root {
	struct rb_node *rb_node;
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	struct rb_root out_of_order_queue;
	__u32 rcv_wnd;      /* bytes: last advertised window */
	__u32 window_clamp; /* bytes: max. advertised window */
	__u16 advmss;       /* bytes */
	__u8 tcp_usec_ts : 1; /* timestamps in microseconds (Linux 6.7) */
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 rcv_wup; /* rcv_nxt at the last acknowledgment */
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u64 bytes_acked;
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1;
	__u32 snd_cwnd_clamp;
	__u32 max_packets_out; /* max. segments in flight in the last window */
	__u32 delivered;       /* segments acknowledged so far, also selectively, retransmissions included */
	__u32 lost;            /* segments considered lost so far */
	__u32 srtt_us;         /* smoothed round-trip time, 1/8 us */
	__u32 mss_cache;
	__u32 packets_out;      /* unacknowledged segments */
	__u32 rate_delivered;   /* segments delivered in rate_interval_us */
	__u32 rate_interval_us;
} KERNEL;

/* The RTT sample of one acknowledgment. */
struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us; /* -1 without one */
} KERNEL;

enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1 };

enum tcp_ca_event { CA_EVENT_LOSS, CA_EVENT_ECN_NO_CE, CA_EVENT_ECN_IS_CE };
enum tcp_ca_ack_event_flags { CA_ACK_ECE = 4 };
enum { TCP_CA_Recovery = 3, TCP_CA_Loss = 4 };

enum { ICSK_ACK_NOW = 16 }; /* a bit of icsk_ack.pending */

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
};

#endif
