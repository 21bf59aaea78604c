/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MTUs of paths that leave no space for options. If a link's MTU less the options is below 1280,
 * the minimum of IPv6, no source sends shorter packets. Longer packets to that destination then get
 * no options, until the entry expires.
 */
#ifndef WEIR_IOAM_PATH_H
#define WEIR_IOAM_PATH_H

#include "maps.h"

#define MIN_MTU 1280                  /* of IPv6 (RFC 8200 section 5) */
#define PATH_LASTS (600ULL * 1000000000) /* ns; the default of net.ipv6.route.mtu_expires */

/* 1 after the first entry: saves the lookup in most domains. */
volatile __u32 ioam_paths_known;

/* Stores the MTU of the path to w->address. */
static __always_inline void store_path(struct ioam_work *w, __u32 mtu)
{
	w->path.until = bpf_ktime_get_ns() + PATH_LASTS;
	w->path.mtu = mtu < MIN_MTU ? MIN_MTU : mtu;
	if (!bpf_map_update_elem(&ioam_paths, &w->address, &w->path, BPF_ANY))
		ioam_paths_known = 1;
}

/* MTU of the path to w->address, at most that of the device. */
__attribute__((noinline)) __u32 path_mtu(__u32 mtu)
{
	struct ioam_work *w = work();
	struct ioam_path *path;

	if (!w)
		return mtu;
	path = bpf_map_lookup_elem(&ioam_paths, &w->address);
	if (!path || path->mtu >= mtu || path->until < bpf_ktime_get_ns())
		return mtu;
	return path->mtu;
}

#endif /* WEIR_IOAM_PATH_H */
