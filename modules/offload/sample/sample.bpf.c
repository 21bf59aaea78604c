//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sampling alone, for the tests of sample.h and for the types of Go. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "sample.h"

char sample_license[] SEC("license") = "Dual BSD/GPL";

const volatile enum sample_bounds sample_bound = SAMPLE_PLACES;

SEC("xdp")
int sample_packet(struct xdp_md *ctx)
{
	const struct ethhdr *eth = (void *)(long)ctx->data;
	const struct ipv6hdr *six = (void *)(eth + 1);
	const struct iphdr *four = (void *)(eth + 1);

	if ((void *)(six + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		sample4(four->daddr);
	else
		sample6(six->daddr.s6_addr32);
	return XDP_PASS;
}
