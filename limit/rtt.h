/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Round-trip times of TCP, as its RTT callback tells them. */
#ifndef WEIR_LIMIT_RTT_H
#define WEIR_LIMIT_RTT_H

#include "maps.h"
#include "queue.h"

static __always_inline void count_one(__u32 index, __u32 us)
{
	struct limit_config *config = bpf_map_lookup_elem(&limit_configs, &index);

	if (!config || !(config->flags & LIMIT_ENFORCED))
		return;
	struct limit_rtt *rtt = bpf_map_lookup_elem(&limit_rtts, &index);

	if (!rtt)
		return;
	rtt->count[bucket((__s64)us * 1000) & (LIMIT_QUEUE_BUCKETS - 1)]++;
	rtt->sum_us += us;
}

/* Counts a sample in both directions of the socket's scopes: its path is one. */
static __always_inline void count_rtt(struct bpf_sock_ops *ops, struct socket_state *known)
{
	__u32 us = ops->args[0] ? ops->args[0] : ops->srtt_us >> 3; /* kernels before 6.11 do not tell the sample */

	for (int i = 0; i < LIMIT_SCOPES_PER_SOCKET; i++) {
		if (i >= known->scopes.count)
			break;
		count_one(known->scopes.scope[i] * 2 + LIMIT_EGRESS, us);
		count_one(known->scopes.scope[i] * 2 + LIMIT_INGRESS, us);
	}
}

#endif
