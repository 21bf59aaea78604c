/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets that were open before the programs were attached, or are open when they end. */
#ifndef WEIR_LIMIT_ITERATOR_H
#define WEIR_LIMIT_ITERATOR_H

#include "sockops.h"

/* Asks for the callbacks of a socket, which pace it and set its receive window. */
SEC("iter/tcp")
int limit_adopt(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = visited(ctx);
	__u32 first = 0;
	struct limit_settings *settings = bpf_map_lookup_elem(&limit_current, &first);

	if (tcp && settings)
		ask_callbacks(tcp, callbacks(settings));
	return 0;
}

/* Gives a socket back what it had. */
SEC("iter/tcp")
int limit_free(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tcp = visited(ctx);
	struct socket_state *known = tcp ? bpf_sk_storage_get(&limit_sockets, tcp, 0, 0) : 0;

	if (known) {
		unpace(tcp, &known->paced);
		free_window(tcp, &known->held);
	}
	return 0;
}

#endif
