/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP socket iterators: adopt open sockets at the attach, and free them at the end. */
#ifndef WEIR_LIMIT_ITERATOR_H
#define WEIR_LIMIT_ITERATOR_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "pace.h"
#include "receive_window.h"
#include "sockops.h"

/* Requests the callbacks that pace the socket and set its receive window. */
SEC("iter/tcp")
int limit_adopt(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = iterator_socket(ctx);
	__u32 first = 0;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);

	if (tcp && settings)
		request_callbacks(tcp, needed_callbacks(settings));
	return 0;
}

/* Restores the pace and the receive window. */
SEC("iter/tcp")
int limit_free(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = iterator_socket(ctx);
	struct socket_state *known = tcp ? bpf_sk_storage_get(&limit_sockets, tcp, 0, 0) : 0;

	if (known) {
		unpace(tcp, &known->paced);
		restore_window(tcp, &known->held);
	}
	return 0;
}

#endif
