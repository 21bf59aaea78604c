/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Value of traceparent (W3C Trace Context section 3.2):
 *
 *   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *   version  trace id                   parent id        flags
 */
#ifndef WEIR_IOAM_TRACEPARENT_H
#define WEIR_IOAM_TRACEPARENT_H

#include "ioam.h"

#define CONTEXT_OCTETS 26 /* bytes of struct ioam_context, two hexadecimal digits each */
#define NO_DIGIT 0xff

/* Value of a lower-case hexadecimal digit, or NO_DIGIT. */
static __always_inline __u8 context_digit(__u8 text)
{
	__u8 number = text - '0', letter = text - 'a';

	return number < 10 ? number : letter < 6 ? letter + 10 : NO_DIGIT;
}

/* Reports whether a dash precedes the nth byte. */
static __always_inline int context_dash(int n)
{
	return n == 1 || n == 17 || n == 25;
}

/* Reports whether a context is valid: a known version, and no id of zeros. */
static __always_inline int context_valid(const struct ioam_context *c)
{
	__u64 trace[2], parent;

	__builtin_memcpy(trace, c->trace, sizeof(trace));
	__builtin_memcpy(&parent, c->parent, sizeof(parent));
	return c->version != 0xff && (trace[0] | trace[1]) && parent;
}

#endif /* WEIR_IOAM_TRACEPARENT_H */
