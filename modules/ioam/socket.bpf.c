//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Takes the W3C trace context of what an application sends on a socket of its own:
 *
 *   setsockopt(socket, 0x57454952, 1, value, length)
 *     26 octets  version, trace id, parent id, flags
 *     55 octets  their text, as in "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
 *      0 octets  nothing is said any more
 *
 * Everything else goes to the kernel as it came, which answers ENOPROTOOPT to this option wherever
 * it means nothing: for sockets of other network namespaces, of IPv4 and of multipath TCP.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

char socket_license[] SEC("license") = "Dual BSD/GPL";

#include "ioam.h"
#include "sockets.h"
#include "traceparent.h"

const volatile __u64 socket_netns = 0;   /* cookie of the network namespace whose devices are the node's */
const volatile __u32 socket_epoch = 0;   /* as in struct ioam_settings */
const volatile __u32 socket_page = 4096; /* octets of a page */

#define AF_IP6 10
#define PROTOCOL_MPTCP 262

/*
 * What is not Weir's goes on. Of a value longer than a page programs see the beginning alone, and
 * the kernel wants to hear that it is to take the original.
 */
static __always_inline int others(struct bpf_sockopt *option)
{
	if (option->optlen > (int)socket_page)
		option->optlen = 0;
	return 1;
}

static __always_inline int refuse(int mistake)
{
	bpf_set_retval(-mistake);
	return 0;
}

/* Reads the text form of a context; returns whether it is one. */
static __always_inline int read_text(const __u8 *text, __u8 *context)
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

/* Writes what is said of a socket. */
static __always_inline void say(struct ioam_socket *said, __u32 epoch, const struct ioam_context *context)
{
	bpf_spin_lock(&said->lock);
	said->epoch = epoch;
	said->context = *context;
	bpf_spin_unlock(&said->lock);
}

SEC("cgroup/setsockopt")
int ioam_setsockopt(struct bpf_sockopt *option)
{
	const __u8 *value = option->optval, *end = option->optval_end;
	struct ioam_context context = {};
	struct bpf_sock *sk = option->sk;
	struct ioam_socket *said;

	if (option->level != IOAM_SOCKET_LEVEL || option->optname != IOAM_SOCKET_CONTEXT || !sk)
		return others(option);
	if (sk->family != AF_IP6 || sk->protocol == PROTOCOL_MPTCP || bpf_get_netns_cookie(option) != socket_netns)
		return others(option);
	if (!option->optlen) {
		said = bpf_sk_storage_get(&ioam_sockets, sk, 0, 0);
		if (said)
			say(said, 0, &context);
		option->optlen = -1; /* done: the kernel does not see it */
		return 1;
	}
	if (option->optlen == IOAM_SOCKET_BINARY && value + IOAM_SOCKET_BINARY <= end)
		__builtin_memcpy(&context, value, IOAM_SOCKET_BINARY);
	else if (!(option->optlen == IOAM_SOCKET_TEXT && value + IOAM_SOCKET_TEXT <= end && read_text(value, (__u8 *)&context)))
		return refuse(EINVAL);
	if (!context_valid(&context))
		return refuse(EINVAL);
	said = bpf_sk_storage_get(&ioam_sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!said)
		return refuse(ENOMEM);
	say(said, socket_epoch, &context);
	option->optlen = -1;
	return 1;
}
