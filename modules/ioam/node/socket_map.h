/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Trace contexts of sockets, written by socket.bpf.c. The storage ends with the socket and counts
 * towards its option memory (net.core.optmem_max).
 */
#ifndef WEIR_IOAM_SOCKET_MAP_H
#define WEIR_IOAM_SOCKET_MAP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "ioam.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ioam_socket);
} ioam_sockets SEC(".maps");

#endif /* WEIR_IOAM_SOCKET_MAP_H */
