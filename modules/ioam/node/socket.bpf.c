//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Socket option with the W3C trace context of an application's data:
 *
 *   setsockopt(socket, 0x57454952, 1, value, length)
 *     26 bytes  version, trace id, parent id, flags
 *     55 bytes  the same as text: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
 *      0 bytes  no context
 *
 * The kernel handles all other options unchanged. It answers ENOPROTOOPT to this one on sockets
 * without support: of other network namespaces, of IPv4, and of multipath TCP.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

char socket_license[] SEC("license") = "Dual BSD/GPL";

#include "ioam.h"
#include "socket_map.h"
#include "traceparent.h"

const volatile __u64 socket_netns = 0;   /* cookie of the node's network namespace */
const volatile __u32 socket_epoch = 0;   /* ioam_settings.sockets */
const volatile __u32 socket_page = 4096; /* page size in bytes */

#define AF_IP6 10
#define PROTOCOL_MPTCP 262

/*
 * Leaves an option to the kernel. Programs see the first page of a longer value; optlen 0 makes the
 * kernel use the original.
 */
static __always_inline int pass_to_kernel(struct bpf_sockopt *option)
{
	if (option->optlen > (int)socket_page)
		option->optlen = 0;
	return 1;
}

static __always_inline int reject(int mistake)
{
	bpf_set_retval(-mistake);
	return 0;
}

/* Parses the text form of a context; returns 0 if it is invalid. */
static __always_inline int parse_text(const __u8 *text, __u8 *context)
{
	__u32 at = 0;
	__u8 all = 0;

	for (int i = 0; i < CONTEXT_OCTETS; i++) {
		__u8 high, low;

		if (context_dash(i)) {
			if (text[at] != '-')
				return 0;
			at++;
		}
		high = context_digit(text[at]);
		low = context_digit(text[at + 1]);
		all |= high | low;
		context[i] = high << 4 | (low & 0xf);
		at += 2;
	}
	return all < 16;
}

/* Stores the context of a socket. */
static __always_inline void store_context(struct ioam_socket *stored, __u32 epoch, const struct ioam_context *context)
{
	bpf_spin_lock(&stored->lock);
	stored->epoch = epoch;
	stored->context = *context;
	bpf_spin_unlock(&stored->lock);
}

SEC("cgroup/setsockopt")
int ioam_setsockopt(struct bpf_sockopt *option)
{
	const __u8 *value = option->optval, *end = option->optval_end;
	struct ioam_context context = {};
	struct bpf_sock *sk = option->sk;
	struct ioam_socket *stored;

	if (option->level != IOAM_SOCKET_LEVEL || option->optname != IOAM_SOCKET_CONTEXT || !sk)
		return pass_to_kernel(option);
	if (sk->family != AF_IP6 || sk->protocol == PROTOCOL_MPTCP || bpf_get_netns_cookie(option) != socket_netns)
		return pass_to_kernel(option);
	if (!option->optlen) {
		stored = bpf_sk_storage_get(&ioam_sockets, sk, 0, 0);
		if (stored)
			store_context(stored, 0, &context);
		option->optlen = -1; /* handled: the kernel skips the option */
		return 1;
	}
	if (option->optlen == IOAM_SOCKET_BINARY && value + IOAM_SOCKET_BINARY <= end)
		__builtin_memcpy(&context, value, IOAM_SOCKET_BINARY);
	else if (!(option->optlen == IOAM_SOCKET_TEXT && value + IOAM_SOCKET_TEXT <= end && parse_text(value, (__u8 *)&context)))
		return reject(EINVAL);
	if (!context_valid(&context))
		return reject(EINVAL);
	stored = bpf_sk_storage_get(&ioam_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!stored)
		return reject(ENOMEM);
	store_context(stored, socket_epoch, &context);
	option->optlen = -1;
	return 1;
}
