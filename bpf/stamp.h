/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stamp in the last 18 octets of a tester frame's UDP payload, big endian:
 *
 *   0        2                        8            14        18
 *   +--------+------------------------+------------+---------+
 *   | stream | sequence number (48)   | s TAI (48) | ns (32) |
 *   +--------+------------------------+------------+---------+
 *
 * Include it after linux/types.h, linux/bpf.h, bpf/bpf_helpers.h and bpf/bpf_endian.h.
 */
#ifndef WEIR_STAMP_H
#define WEIR_STAMP_H

#define STAMP_SIZE 18
#define STAMP_SECOND 1000000000ULL
#define STAMP_SEQUENCE_BITS 48
#define STAMP_SEQUENCE_MASK ((1ULL << STAMP_SEQUENCE_BITS) - 1)

struct stamp {
	__u64 sequence; /* 48 bits */
	__u64 time;     /* ns, TAI */
	__u32 stream;
	__u32 valid; /* 1 if ns < 10^9 and s fits in 32 bits */
};

/*
 * stamp_write - writes a stamp to the 18 octets at p and returns their unfolded ones' complement
 * sum (RFC 1071).
 */
static __always_inline __u32 stamp_write(__u8 *p, __u32 stream, __u64 sequence, __u64 time)
{
	__u64 second = time / STAMP_SECOND, number;
	__u32 ns = (__u32)(time - second * STAMP_SECOND), low = (__u32)second;
	__u32 sum;

	number = (__u64)stream << STAMP_SEQUENCE_BITS | (sequence & STAMP_SEQUENCE_MASK);
	*(__u64 *)p = bpf_cpu_to_be64(number);
	*(__u16 *)(p + 8) = bpf_htons((__u16)(second >> 32));
	*(__u32 *)(p + 10) = bpf_htonl(low);
	*(__u32 *)(p + 14) = bpf_htonl(ns);
	sum = (__u32)(number >> 48) + (__u32)(number >> 32 & 0xffff) + (__u32)(number >> 16 & 0xffff) + (__u32)(number & 0xffff);
	return sum + (__u16)(second >> 32) + (low >> 16) + (low & 0xffff) + (ns >> 16) + (ns & 0xffff);
}

/*
 * stamp_decode - decodes a stamp from its parts in network byte order: number, upper and lower s,
 * ns.
 */
static __always_inline void stamp_decode(struct stamp *s, __u64 number, __u16 upper, __u32 lower, __u32 ns)
{
	number = bpf_be64_to_cpu(number);
	lower = bpf_ntohl(lower);
	ns = bpf_ntohl(ns);
	s->stream = (__u32)(number >> STAMP_SEQUENCE_BITS);
	s->sequence = number & STAMP_SEQUENCE_MASK;
	s->time = lower * STAMP_SECOND + ns;
	s->valid = upper == 0 && ns < STAMP_SECOND;
}

/* stamp_read - decodes the stamp in the 18 octets at p. */
static __always_inline void stamp_read(struct stamp *s, const __u8 *p)
{
	stamp_decode(s, *(const __u64 *)p, *(const __u16 *)(p + 8), *(const __u32 *)(p + 10), *(const __u32 *)(p + 14));
}

/*
 * stamp_load - decodes the stamp at offset in a frame of several buffers; returns 0 if it is cut
 * off.
 */
static __always_inline int stamp_load(struct stamp *s, struct xdp_md *ctx, __u32 offset)
{
	struct {
		__u64 number;
		__u16 unused[3], upper;
		__u32 lower, ns;
	} parts = {};

	if (bpf_xdp_load_bytes(ctx, offset, &parts.number, 8) || bpf_xdp_load_bytes(ctx, offset + 8, &parts.upper, 10))
		return 0;
	stamp_decode(s, parts.number, parts.upper, parts.lower, parts.ns);
	return 1;
}

#endif /* WEIR_STAMP_H */
