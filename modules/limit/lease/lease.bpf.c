//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Leases of rates: a limit has a granted configuration until its lease ends, then its floor.
 *
 *   user space --- request ---> lease_set --- granted ---> configs (of the policer or shaper)
 *                                   |                         ^
 *                                   v                         |
 *                               leases: timer, floor --- at the end
 *
 * The timer is the kernel's, so a lease ends in time although the process that set it was killed.
 * It lives as long as the map leases, which is pinned. User space makes and removes the entries of
 * leases, and never writes one that exists: that would cancel its timer.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define CLOCK_MONOTONIC 1

char lease_license[] SEC("license") = "Dual BSD/GPL";

enum lease_format {
	LEASE_CONFIG = 192, /* bytes; a configuration is at most as long */
};

/* Value of leases. Only the programs write it, except generation at its creation. */
struct lease {
	struct bpf_timer timer;
	__u64 generation; /* of the entry; requests with another one are for a former limit */
	__u8 floor[LEASE_CONFIG];
};

/* Sent as a test packet. */
struct lease_request {
	__u8 ethernet[16]; /* unused; the kernel parses it */
	__u64 generation;
	__u64 for_ns;      /* ns until the floor replaces the granted configuration */
	__u32 key;         /* in leases and configs */
	__u32 unused;
	__u8 granted[LEASE_CONFIG] __attribute__((aligned(8)));
	__u8 floor[LEASE_CONFIG];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct lease);
} leases SEC(".maps");

/* Configurations of a data plane; Go sets the type and sizes of the map that replaces it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, LEASE_CONFIG);
} configs SEC(".maps");

/* Virtual queues of a policer, by the keys of configs; Go sets the sizes as above. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__s64));
} queues SEC(".maps");

const volatile __u32 lease_scales = 0; /* whether there are queues */

/* References that put the types into BTF. */
const volatile enum lease_format lease_formats = LEASE_CONFIG;
const struct lease_request *lease_requests __attribute__((unused));

/*
 * Scales a virtual queue, which is a time at the former rate, to a higher rate. Unscaled, the bytes
 * sent at a low rate would close the scope for that time at the new one. A configuration begins
 * with the cost of a byte, a queue with its end.
 */
static void scale_queue(__u32 key, const struct lease_request *request)
{
	__u64 *cost = bpf_map_lookup_elem(&configs, &key), granted = *(const __u64 *)request->granted;
	__s64 *end = bpf_map_lookup_elem(&queues, &key);

	if (!cost || !end || !granted || granted >= *cost)
		return;
	__u64 ratio = (granted << 16) / *cost; /* granted < 2^48: ns per byte at 64 kbit/s, times 2^LIMIT_COST_SHIFT */

	for (int attempt = 0; attempt < 8; attempt++) {
		__s64 was = *(volatile __s64 *)end, now = bpf_ktime_get_ns(), queue = was - now;

		if (queue <= 0 || __sync_val_compare_and_swap(end, was, now + (__s64)(queue * ratio >> 16)) == was)
			return;
	}
}

static int end_lease(void *map, __u32 *key, struct lease *lease)
{
	bpf_map_update_elem(&configs, key, lease->floor, BPF_EXIST);
	return 0;
}

/* Returns 0, or 1 if there is no such limit, 2 if the timer cannot be set. */
SEC("tc")
int lease_set(struct __sk_buff *skb)
{
	struct lease_request request;
	struct lease *lease;

	if (bpf_skb_load_bytes(skb, 0, &request, sizeof(request)))
		return 1;
	lease = bpf_map_lookup_elem(&leases, &request.key);
	if (!lease || lease->generation != request.generation)
		return 1;
	__builtin_memcpy(lease->floor, request.floor, sizeof(lease->floor));
	bpf_timer_init(&lease->timer, &leases, CLOCK_MONOTONIC); /* fails after the first time */
	if (bpf_timer_set_callback(&lease->timer, end_lease) || bpf_timer_start(&lease->timer, request.for_ns, 0))
		return 2;
	if (lease_scales)
		scale_queue(request.key, &request);
	return bpf_map_update_elem(&configs, &request.key, request.granted, BPF_EXIST) ? 1 : 0;
}
