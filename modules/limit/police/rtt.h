/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP round-trip times from the RTT callback. */
#ifndef WEIR_LIMIT_RTT_H
#define WEIR_LIMIT_RTT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "queue.h"

/* Counts a sample in each of the socket's scopes. */
static __always_inline void count_rtt(struct bpf_sock_ops *ops, struct socket_state *known)
{
	__u32 us = ops->args[0] ? ops->args[0] : ops->srtt_us >> 3; /* kernels before 6.11 do not report the sample */
	__u32 place = bucket_of(us) & (LIMIT_QUEUE_BUCKETS - 1);

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= known->scopes.count)
			break;
		__u32 scope = known->scopes.scope[i];
		struct limit_rtt *rtts = bpf_map_lookup_elem(&limit_rtts, &scope);

		if (!rtts)
			continue;
		rtts->count[place]++;
		rtts->sum_us += us;
	}
}

#endif
