/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Verifies a datagram: its UDP checksum (RFC 768, RFC 8200 section 8.1) over all of its octets, and
 * the checksum of an IPv4 header (RFC 791 section 3.1), which every hop rewrites.
 */
#ifndef WEIR_ANALYZER_VERIFY_H
#define WEIR_ANALYZER_VERIFY_H

#define CHUNK 256
#define CHUNKS 37 /* 37 * 256 > 9216 */

/*
 * SUM_WORDS - adds the 32-bit words of `size` octets at p if they are part of the request; the
 * verifier requires a constant size.
 */
#define SUM_WORDS(size)                                        \
	if (left & (size)) {                                   \
		if (p + (size) > end)                          \
			return -1;                             \
		_Pragma("unroll") for (int i = 0; i < (size); i += 4) \
			sum += *(__u32 *)(p + i);              \
		p += (size);                                   \
	}

/*
 * datagram_sum - ones' complement sum of `place >> 16` octets from offset `place & 0xffff`, in the
 * CPU's byte order, in 32 bits; negative if they leave the linear part. A global function, so that
 * the verifier checks it once.
 */
__noinline __s64 datagram_sum(struct xdp_md *ctx, __u32 place)
{
	__u32 offset = place & 0xffff, left = place >> 16;
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *p;
	__u64 sum = 0;

	if (offset > 256)
		return -1;
	p = data + offset;
	for (int i = 0; i < CHUNKS && left >= CHUNK; i++) {
		if (p + CHUNK > end)
			return -1;
		sum = (__u32)bpf_csum_diff(0, 0, (__be32 *)p, CHUNK, (__u32)sum);
		p += CHUNK;
		left -= CHUNK;
	}
	SUM_WORDS(128)
	SUM_WORDS(64)
	SUM_WORDS(32)
	SUM_WORDS(16)
	SUM_WORDS(8)
	SUM_WORDS(4)
	if (left & 2) {
		if (p + 2 > end)
			return -1;
		sum += *(__u16 *)p;
		p += 2;
	}
	if (left & 1) {
		if (p + 1 > end)
			return -1;
		sum += *p; /* the missing second octet counts as 0 */
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (__u32)((sum & 0xffffffff) + (sum >> 32));
}

/* scattered_sum - the same for a frame in several buffers. */
__noinline __s64 scattered_sum(struct xdp_md *ctx, __u32 place)
{
	__u32 offset = place & 0xffff, left = place >> 16, part;
	__u32 buffer[CHUNK / 4];
	__s64 sum = 0;

	for (int i = 0; i < CHUNKS && left >= CHUNK; i++) {
		if (bpf_xdp_load_bytes(ctx, offset, buffer, CHUNK))
			return -1;
		sum = bpf_csum_diff(0, 0, buffer, CHUNK, (__u32)sum);
		offset += CHUNK;
		left -= CHUNK;
	}
	if (left == 0)
		return sum;
	__builtin_memset(buffer, 0, sizeof(buffer));
	part = left;
	asm volatile("" : "+r"(part)); /* older verifiers learn nothing from part != 0 */
	part = ((part - 1) & (CHUNK - 1)) + 1;
	if (bpf_xdp_load_bytes(ctx, offset, buffer, part))
		return -1;
	return bpf_csum_diff(0, 0, buffer, CHUNK, (__u32)sum);
}

/* intact - reports whether the datagram's UDP checksum is correct, or absent (IPv4). */
static __always_inline int intact(struct xdp_md *ctx, const struct datagram *d)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 addresses = d->ip6 ? 8 : 12, size = d->ip6 ? 32 : 8;
	__u32 start, sum;
	__s64 part;
	__u8 *udp = data + (d->udp & 0xff);

	if (udp + PACKET_UDP > end)
		return 0;
	if (!d->ip6 && *(__u16 *)(udp + 6) == 0)
		return 1;
	start = d->ip + addresses;
	/* the addresses precede the UDP header directly unless IPv4 has options */
	if (start + size != d->udp) {
		__s64 options = datagram_sum(ctx, start | size << 16);

		if (options < 0)
			return 0;
		part = datagram_sum(ctx, d->udp | d->length << 16);
		if (part < 0)
			part = scattered_sum(ctx, d->udp | d->length << 16);
		if (part < 0)
			return 0;
		sum = checksum_fold((__u32)options) + checksum_fold((__u32)part);
	} else {
		part = datagram_sum(ctx, start | (size + d->length) << 16);
		if (part < 0)
			part = scattered_sum(ctx, start | (size + d->length) << 16);
		if (part < 0)
			return 0;
		sum = checksum_fold((__u32)part);
	}
	sum += bpf_htons(PACKET_PROTOCOL_UDP) + bpf_htons((__u16)d->length);
	return checksum_fold(sum) == 0xffff;
}

/* header_intact - reports whether the checksum of an IPv4 header is correct; IPv6 has none. */
static __always_inline int header_intact(struct xdp_md *ctx, const struct datagram *d)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *ip = data + (d->ip & 0x3f);
	__u32 options = d->udp - d->ip - PACKET_IP4, sum;
	__u64 words = 0;
	__s64 part;

	if (d->ip6)
		return 1;
	if (ip + PACKET_IP4 > end)
		return 0;
	_Pragma("unroll") for (int i = 0; i < PACKET_IP4; i += 4)
		words += *(__u32 *)(ip + i);
	words = (words & 0xffffffff) + (words >> 32);
	sum = checksum_fold((__u32)((words & 0xffffffff) + (words >> 32)));
	if (options) {
		part = datagram_sum(ctx, (d->ip + PACKET_IP4) | options << 16);
		if (part < 0)
			return 0;
		sum += checksum_fold((__u32)part);
	}
	return checksum_fold(sum) == 0xffff;
}

/* damaged - returns the checksum error of a datagram, or REASON_CONTEXT. */
static __always_inline enum reason damaged(struct xdp_md *ctx, const struct datagram *d)
{
	if (!header_intact(ctx, d))
		return REASON_HEADER;
	return intact(ctx, d) ? REASON_CONTEXT : REASON_PAYLOAD;
}

#endif /* WEIR_ANALYZER_VERIFY_H */
