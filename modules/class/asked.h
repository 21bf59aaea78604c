/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers in the class in which they are asked for: what comes in at a device is remembered by flow
 * where its DSCP may be asked for, and answered with it from the first packet on, whatever the
 * server knows of it.
 *
 *   comes in               known               becomes
 *   may be asked for       no                  an entry with its DSCP
 *   may be asked for       yes                 the entry has its DSCP
 *   any other              no                  nothing: no entry for best effort
 *   any other              yes                 the entry has ASKED_NONE
 *
 * The table has a fixed size and forgets the flow that was silent longest, which is asked for again
 * by its next packet. A fragment but the first has no ports, and keeps the DSCP that it has.
 *
 * Include it after packet.h and bpf/upper_layer.h.
 */
#ifndef WEIR_CLASS_ASKED_H
#define WEIR_CLASS_ASKED_H

#define ASKED_NONE CLASS_DSCPS
#define ASKED_OFFSET 0x1fff /* of a fragment, in IPv4's header */

/* A flow, as this host sees it. */
struct asked_flow {
	__u32 here[4]; /* IPv4 as IPv4-mapped IPv6, all in network byte order */
	__u32 there[4];
	__u16 here_port; /* 0 of protocols without ports */
	__u16 there_port;
	__u32 protocol;
};

/* Flow to the DSCP with which the other end came last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct asked_flow);
	__type(value, __u32);
} class_flows SEC(".maps");

/* Finds the protocol behind extension headers and where its ports are; 0 in a fragment without. */
static __always_inline int asked_behind(struct __sk_buff *skb, __u32 *protocol, __u32 *at)
{
	struct upper_layer upper = upper_layer_of(*protocol);

	upper_layer_walk(skb, &upper, UPPER_NETWORK);
	*protocol = upper.protocol;
	*at = upper.at;
	return !upper.later;
}

/* Reads a packet's protocol and ports; 0 for a fragment without. */
static __always_inline int asked_ports(struct __sk_buff *skb, const struct packet *p, __u32 *protocol, __u16 port[2])
{
	__u32 at = 40;

	*protocol = p->ip.octet[6];
	if (p->version == 4) {
		*protocol = p->ip.octet[9];
		at = (p->ip.octet[0] & 15) * 4;
		if (p->ip.half[3] & bpf_htons(ASKED_OFFSET))
			return 0;
	} else if (*protocol != 6 && *protocol != 17 && extension_is(*protocol) && !asked_behind(skb, protocol, &at)) {
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

/* The DSCP that a packet that leaves is asked for with; ASKED_NONE if none of those that may be. */
static __always_inline __u32 asked_dscp(struct __sk_buff *skb, const struct packet *p, __u64 may)
{
	struct asked_flow flow = {};
	struct match_prefix to, from;
	__u16 port[2] = {};
	__u32 *known;

	addresses(p, &to, &from);
	if (!asked_ports(skb, p, &flow.protocol, port))
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

/* Remembers with which DSCP a packet came. */
static __always_inline void asked_remember(struct __sk_buff *skb, __u64 may)
{
	struct asked_flow flow = {};
	struct match_prefix to, from;
	struct packet p = {};
	__u16 port[2] = {};
	__u32 *known, dscp;

	if (!read(skb, &p, &to, &from) || !asked_ports(skb, &p, &flow.protocol, port))
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
