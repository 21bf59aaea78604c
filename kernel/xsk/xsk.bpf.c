//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Redirect to AF_XDP:
//
//   frame arrives -> write the time into 8 octets of metadata in front of it
//                 -> hand it to the socket of its receive queue
//
// A queue without a socket drops its frames: the device counts them (rx_queue_N_xdp_drops),
// nothing is lost unseen.
// Stamping on arrival keeps the receiver's own lateness out of everything that is computed from
// the time.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define QUEUES 64

/* the AF_XDP socket of each receive queue */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static __always_inline int redirect(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(__u64)) == 0) {
		__u64 *stamp = (void *)(long)ctx->data_meta;
		void *data = (void *)(long)ctx->data;

		if ((void *)(stamp + 1) <= data)
			*stamp = bpf_ktime_get_ns();
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}

SEC("xdp")
int to_socket(struct xdp_md *ctx)
{
	return redirect(ctx);
}

/* the same for frames that span several buffers */
SEC("xdp.frags")
int to_socket_frags(struct xdp_md *ctx)
{
	return redirect(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
