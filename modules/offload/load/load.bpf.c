//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs for benchmarks of a fast path: a source, a sink, a forwarder by bpf_fib_lookup for every
 * packet, as xdp-forward of xdp-tools, and lookups alone.
 *
 *     live frames --> load_source --tail call--> forwarder --> device --> load_sink
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../xdp/lookup.h"

char load_license[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 load_device = 0; /* input device of bpf_fib_lookup */
const volatile __u32 load_mask = 0;   /* one less than the number of destinations, a power of two */

/* Destinations, in network order. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __be32);
} load_targets SEC(".maps");

/* One entry: packets at the sink. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} load_arrived SEC(".maps");

/* One entry: destinations with a route in the kernel's table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} load_answered SEC(".maps");

/* Devices by their indices. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} load_ports SEC(".maps");

/* One entry: the program called by load_source. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} load_forwarder SEC(".maps");

static __always_inline __be32 lookup_target(void)
{
	__u32 at = bpf_get_prandom_u32() & load_mask;
	const __be32 *to = bpf_map_lookup_elem(&load_targets, &at);

	return to ? *to : 0;
}

SEC("xdp")
int load_sink(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&load_arrived, &zero);

	if (n)
		++*n;
	return XDP_DROP;
}

const volatile __u8 load_to[6] = {};   /* link-layer addresses of frames from load_source */
const volatile __u8 load_from[6] = {};
const volatile __be32 load_address = 0; /* their source */

/*
 * Passes a frame to a random destination on as if the device of the test run had received it.
 * Frames are reused after forwarding, so each one is written completely.
 */
SEC("xdp")
int load_source(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	__u64 sum;

	if ((void *)(ip + 1) > end)
		return XDP_ABORTED;
	for (int i = 0; i < 6; i++) {
		eth->h_dest[i] = load_to[i];
		eth->h_source[i] = load_from[i];
	}
	eth->h_proto = bpf_htons(ETH_P_IP);
	*(__be16 *)ip = bpf_htons(0x4500);
	ip->tot_len = bpf_htons(end - (void *)ip);
	ip->id = 0;
	ip->frag_off = 0;
	ip->ttl = 64;
	ip->protocol = 17;
	ip->saddr = load_address;
	ip->daddr = lookup_target();
	ip->check = 0;
	const __u32 *w = (const __u32 *)ip;

	sum = (__u64)w[0] + w[1] + w[2] + w[3] + w[4];
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~sum;
	bpf_tail_call(ctx, &load_forwarder, 0);
	return XDP_ABORTED;
}

/* Forwarders: the kernel, none, and a plain redirect. */
SEC("xdp")
int load_kernel(struct xdp_md *ctx) { return XDP_PASS; }

SEC("xdp")
int load_nobody(struct xdp_md *ctx) { return XDP_DROP; }

const volatile __u32 load_out = 0; /* output device of load_redirect */

SEC("xdp")
int load_redirect(struct xdp_md *ctx) { return bpf_redirect_map(&load_ports, load_out, 0); }

SEC("xdp")
int load_fib(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);
	struct bpf_fib_lookup fib = {};
	__u32 check;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ttl <= 1)
		return XDP_PASS;
	fib.family = 2;
	fib.tos = ip->tos;
	fib.l4_protocol = ip->protocol;
	fib.tot_len = bpf_ntohs(ip->tot_len);
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	fib.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	check = ip->check + bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
	__builtin_memcpy(eth->h_dest, fib.dmac, 6);
	__builtin_memcpy(eth->h_source, fib.smac, 6);
	return bpf_redirect_map(&load_ports, fib.ifindex, 0);
}

#define LOOKUPS 64

/* Looks up random destinations. */
SEC("xdp")
int load_find(struct xdp_md *ctx)
{
	__u32 found = 0;

	for (int i = 0; i < LOOKUPS; i++) {
		__be32 to = lookup_target();

		found += fast_lookup4((const __u8 *)&to);
	}
	return found == 0xffffffff ? XDP_DROP : XDP_PASS;
}

/* Looks up random destinations in the kernel's table. */
SEC("xdp")
int load_ask(struct xdp_md *ctx)
{
	__u32 zero = 0, found = 0;
	__u64 *answered = bpf_map_lookup_elem(&load_answered, &zero);

	for (int i = 0; i < LOOKUPS; i++) {
		struct bpf_fib_lookup fib = {.family = 2, .ifindex = load_device};

		fib.tot_len = 46;
		fib.ipv4_src = bpf_htonl(0x0a010002);
		fib.ipv4_dst = lookup_target();
		if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_SUCCESS)
			found++;
	}
	if (answered)
		*answered += found;
	return XDP_PASS;
}

/* The loop of load_find without lookups. */
SEC("xdp")
int load_idle(struct xdp_md *ctx)
{
	__u32 found = 0;

	for (int i = 0; i < LOOKUPS; i++)
		found += lookup_target();
	return found == 0xffffffff ? XDP_DROP : XDP_PASS;
}
