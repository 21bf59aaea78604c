/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rate limit of packets with the flags Loopback or Active, and of copies (RFC 9322 sections 4 and
 * 5).
 */
#ifndef WEIR_IOAM_FLAGS_H
#define WEIR_IOAM_FLAGS_H

#include "maps.h"
#include "node_data.h"

/* Takes bytes from this second's tokens; returns 0 without enough tokens. */
static __always_inline int within_flag_rate(struct ioam_work *w, const struct ioam_settings *node, __u32 octets)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - w->flags_filled > SECOND) {
		w->flags_filled = now;
		w->flag_tokens = node->flagged;
	}
	if (w->flag_tokens < octets)
		return 0;
	w->flag_tokens -= octets;
	return 1;
}

#endif /* WEIR_IOAM_FLAGS_H */
