//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes one step of rLEDBAT (../../rledbat.h) at a time, from a state that a test gives. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../rshare.h"

char steps_license[] SEC("license") = "Dual BSD/GPL";

struct steps_step {
	struct rledbat state;
	struct rledbat_ack ack;
	struct ledbat_tunables tunables;
	__u32 done; /* enum rledbat_done */
	__u32 delay; /* us, after it */
	__u32 shared; /* 1: with the path and the count below, which are unused otherwise */
	struct rshare share;
	struct ledbat_path path;
	struct ledbat_count sharing;
};

/* One entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct steps_step);
} steps_of SEC(".maps");

SEC("socket")
int steps_make(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct steps_step *step = bpf_map_lookup_elem(&steps_of, &zero);

	if (!step)
		return 0;
	if (!step->state.phase) {
		rledbat_init(&step->state, step->ack.now, step->ack.next, step->ack.mss);
		if (step->shared)
			inherit_base(&step->path, &step->state.delays);
	} else if (step->shared)
		step->done = rshare_update(&step->state, &step->ack, &step->tunables, &step->path, &step->sharing, &step->share);
	else
		step->done = rledbat_update(&step->state, &step->ack, &step->tunables);
	step->delay = delay_of(&step->state.delays, base_of(&step->state.delays));
	return 1;
}
