/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * class: as-asked. Replies get the DSCP of the requests: a flow table stores the DSCP of received
 * packets if the scope accepts it, and packets that leave in the opposite direction get it from the
 * first reply on. The server application takes no part.
 *
 *   received DSCP    flow known    action
 *   accepted         no            add an entry with the DSCP
 *   accepted         yes           store the DSCP
 *   other            no            none: best effort has no entry
 *   other            yes           store ASKED_NONE
 *
 * The table has a fixed size and evicts the least recently used flow; the next request adds it
 * again. Fragments other than the first have no ports and keep their DSCP.
 *
 * Include it after packet.h and bpf/upper_layer.h.
 */
#ifndef WEIR_CLASS_ASKED_H
#define WEIR_CLASS_ASKED_H

#define ASKED_NONE CLASS_DSCPS
#define ASKED_OFFSET 0x1fff /* mask of the fragment offset in the IPv4 header */

/* A flow, from this host's side. */
struct asked_flow {
	__u32 here[4]; /* IPv4 as IPv4-mapped IPv6, all in network byte order */
	__u32 there[4];
	__u16 here_port; /* 0 for protocols without ports */
	__u16 there_port;
	__u32 protocol;
};

/* Flow to the DSCP of the last packet received. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct asked_flow);
	__type(value, __u32);
} class_flows SEC(".maps");

/* Skips IPv6 extension headers; 0 for a fragment without ports. */
static __always_inline int find_upper_layer(struct __sk_buff *skb, __u32 *protocol, __u32 *at)
{
	struct upper_layer upper = upper_layer_of(*protocol);

	upper_layer_walk(skb, &upper, UPPER_NETWORK);
	*protocol = upper.protocol;
	*at = upper.at;
	return !upper.later;
}

/* Reads protocol and ports; 0 for a fragment without ports. */
static __always_inline int parse_ports(struct __sk_buff *skb, const struct packet *p, __u32 *protocol, __u16 port[2])
{
	__u32 at = 40;

	*protocol = p->ip.octet[6];
	if (p->version == 4) {
		*protocol = p->ip.octet[9];
		at = (p->ip.octet[0] & 15) * 4;
		if (p->ip.half[3] & bpf_htons(ASKED_OFFSET))
			return 0;
	} else if (*protocol != 6 && *protocol != 17 && extension_is(*protocol) && !find_upper_layer(skb, protocol, &at)) {
		return 0;
	}
	switch (*protocol) {
	case 6:   /* TCP */
	case 17:  /* UDP */
	case 33:  /* DCCP */
	case 132: /* SCTP */
	case 136: /* UDP-Lite */
		return !bpf_skb_load_bytes_relative(skb, at, port, 4, BPF_HDR_START_NET);
	}
	return 1;
}

/* Returns the requested DSCP of a packet that leaves; ASKED_NONE if may does not contain it. */
static __always_inline __u32 lookup_requested_dscp(struct __sk_buff *skb, const struct packet *p, __u64 may)
{
	struct asked_flow flow = {};
	struct match_prefix to, from;
	__u16 port[2] = {};
	__u32 *known;

	load_addresses(p, &to, &from);
	if (!parse_ports(skb, p, &flow.protocol, port))
		return ASKED_NONE;
	__builtin_memcpy(flow.here, from.address, sizeof(flow.here));
	__builtin_memcpy(flow.there, to.address, sizeof(flow.there));
	flow.here_port = port[0];
	flow.there_port = port[1];
	known = bpf_map_lookup_elem(&class_flows, &flow);
	if (!known || *known >= CLASS_DSCPS || !(may >> *known & 1))
		return ASKED_NONE;
	return *known;
}

/* Stores the DSCP of a received packet. */
static __always_inline void record_requested_dscp(struct __sk_buff *skb, __u64 may)
{
	struct asked_flow flow = {};
	struct match_prefix to, from;
	struct packet p = {};
	__u16 port[2] = {};
	__u32 *known, dscp;

	if (!parse_packet(skb, &p, &to, &from) || !parse_ports(skb, &p, &flow.protocol, port))
		return;
	__builtin_memcpy(flow.here, to.address, sizeof(flow.here));
	__builtin_memcpy(flow.there, from.address, sizeof(flow.there));
	flow.here_port = port[1];
	flow.there_port = port[0];
	dscp = may >> (p.tos >> 2) & 1 ? p.tos >> 2 : ASKED_NONE;
	known = bpf_map_lookup_elem(&class_flows, &flow);
	if (known) {
		if (*known != dscp)
			*known = dscp;
	} else if (dscp != ASKED_NONE) {
		bpf_map_update_elem(&class_flows, &flow, &dscp, BPF_ANY);
	}
}

#endif
