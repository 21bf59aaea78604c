/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the UDP datagram of an Ethernet frame with up to two VLAN tags, IPv4 with options or IPv6
 * without extension headers. Fragments do not match. Lengths come from the headers, so padding and
 * trailers are excluded.
 *
 * Include it after linux/bpf.h, linux/types.h, bpf/bpf_helpers.h and bpf/bpf_endian.h.
 */
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

#define PACKET_ETHERNET 14
#define PACKET_VLAN 4
#define PACKET_IP4 20
#define PACKET_IP6 40
#define PACKET_UDP 8
#define PACKET_TYPE_IP4 0x0800
#define PACKET_TYPE_IP6 0x86dd
#define PACKET_TYPE_VLAN 0x8100
#define PACKET_TYPE_QINQ 0x88a8
#define PACKET_PROTOCOL_UDP 17

/* Offsets are octets from the start of the frame. */
struct datagram {
	__u32 ip;     /* IP header */
	__u32 udp;    /* UDP header */
	__u32 length; /* octets of UDP header and payload */
	__u32 ip6;    /* 1 for IPv6 */
};

static __always_inline __u32 packet_be16(const __u8 *at)
{
	return (__u32)at[0] << 8 | at[1];
}

/*
 * packet_datagram - fills in d; returns 0 unless the linear part of the frame starts with the
 * headers of one whole UDP datagram.
 */
static __always_inline int packet_datagram(struct datagram *d, const __u8 *data, const __u8 *end)
{
	__u32 type, at = PACKET_ETHERNET, header;
	const __u8 *ip;

	if (data + PACKET_ETHERNET + 2 * PACKET_VLAN + PACKET_IP4 + PACKET_UDP > end)
		return 0;
	type = packet_be16(data + 12);
	if (type == PACKET_TYPE_VLAN || type == PACKET_TYPE_QINQ) {
		type = packet_be16(data + 16);
		at += PACKET_VLAN;
		if (type == PACKET_TYPE_VLAN) {
			type = packet_be16(data + 20);
			at += PACKET_VLAN;
		}
	}
	ip = data + at;
	d->ip = at;
	if (type == PACKET_TYPE_IP4) {
		if (ip + PACKET_IP4 > end || (ip[0] & 0xf0) != 0x40 || ip[9] != PACKET_PROTOCOL_UDP)
			return 0;
		if (packet_be16(ip + 6) & 0x3fff) /* more fragments, or not the first */
			return 0;
		header = (__u32)(ip[0] & 0x0f) * 4;
		if (header < PACKET_IP4)
			return 0;
		d->length = packet_be16(ip + 2) - header;
		d->ip6 = 0;
	} else if (type == PACKET_TYPE_IP6) {
		if (ip + PACKET_IP6 > end || (ip[0] & 0xf0) != 0x60 || ip[6] != PACKET_PROTOCOL_UDP)
			return 0;
		header = PACKET_IP6;
		d->length = packet_be16(ip + 4);
		d->ip6 = 1;
	} else {
		return 0;
	}
	d->udp = at + header;
	ip += header;
	if (ip + PACKET_UDP > end || packet_be16(ip + 4) != d->length)
		return 0;
	return d->length >= PACKET_UDP && d->length <= 0xffff;
}

#endif /* WEIR_PACKET_H */
