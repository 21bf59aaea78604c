/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How much may carry the flags Loopback or Active, or be sent back (RFC 9322 sections 4 and 5). */
#ifndef WEIR_IOAM_FLAGS_H
#define WEIR_IOAM_FLAGS_H

/* Spends octets of this second's; says whether there are so many. */
static __always_inline int spend(struct ioam_work *w, const struct ioam_settings *node, __u32 octets)
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
