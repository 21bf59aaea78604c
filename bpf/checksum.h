/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Internet checksum (RFC 1071): ones' complement sums of 16-bit words, read as numbers in
 * network order. A checksum is htons(~fold(sum)).
 */
#ifndef WEIR_CHECKSUM_H
#define WEIR_CHECKSUM_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* checksum_fold - folds a sum to 16 bits. */
static __always_inline __u32 checksum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* checksum_swap - converts the folded sum of bytes that start at an odd offset. */
static __always_inline __u32 checksum_swap(__u32 sum)
{
	return (sum & 0xff) << 8 | (sum >> 8 & 0xff);
}

#endif /* WEIR_CHECKSUM_H */
