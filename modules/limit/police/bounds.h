/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Minimum and maximum without branches: the verifier follows both paths of each branch. */
#ifndef WEIR_LIMIT_BOUNDS_H
#define WEIR_LIMIT_BOUNDS_H

#include <linux/types.h>

/* Returns value, or 0 if it is negative. */
static __always_inline __s64 at_least_0(__s64 value)
{
	__s64 sign = value;

	asm("%0 s>>= 63" : "+r"(sign)); /* clang would make it a branch again */
	return value & ~sign;
}

/* The operands of at_least and at_most differ by less than 2^63. */
static __always_inline __s64 at_least(__u64 value, __u64 lower)
{
	return lower + at_least_0(value - lower);
}

static __always_inline __u64 at_most(__u64 value, __u64 upper)
{
	return value - at_least_0(value - upper);
}

#endif
