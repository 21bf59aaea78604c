/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes a stream's next frame from its outline: head, fields, stamp and checksums, in this order.
 * The including program provides `settings`.
 */
#ifndef WEIR_GENERATOR_WRITE_H
#define WEIR_GENERATOR_WRITE_H

#define UDP_SIZE 8
#define WIRE_OVERHEAD 24 /* FCS, preamble, delimiter, gap */
#define LENGTH_MASK 0xfff

static __always_inline __u64 mix(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static __always_inline __u32 words(__u32 value)
{
	return checksum_fold((value >> 16) + (value & 0xffff));
}

/* step - advances a field to its value for the next frame. */
static __always_inline void step(const struct field *f, struct turn *t)
{
	if (++t->repeated < f->repetitions)
		return;
	t->repeated = 0;
	t->step++;
	if (f->action == ACTION_INCREMENT)
		t->value = ((t->value | ~f->mask) + 1) & f->mask; /* the carry runs through the bits between */
	else if (f->action == ACTION_DECREMENT)
		t->value = (t->value - 1) & f->mask;
	else
		t->value = (__u32)(mix(f->seed + t->step) >> 32) & f->mask;
}

/* write - writes the stream's next frame; 0 if it does not fit the kernel's buffer. */
static __always_inline int write(struct xdp_md *ctx, const struct plan *plan, struct progress *p, const struct outline *o, __u64 now)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *at;
	__u32 udp = o->udp_sum, network = o->network_sum, sum;

	for (int i = 0; i < GENERATOR_SIZES && i < settings.restores; i++) {
		at = data + (settings.restore[i] & LENGTH_MASK);
		if (settings.restore[i] + STAMP_SIZE >= o->length || at + STAMP_SIZE > end)
			continue;
		*(__u64 *)at = 0;
		*(__u64 *)(at + 8) = 0;
		*(__u16 *)(at + 16) = 0;
	}
	if (data + GENERATOR_HEAD <= end)
		__builtin_memcpy(data, o->head, GENERATOR_HEAD);
	else if (data + GENERATOR_SHORT <= end)
		__builtin_memcpy(data, o->head, GENERATOR_SHORT);
	else
		return 0;
	for (int i = 0; i < GENERATOR_FIELDS && i < plan->fields; i++) {
		const struct field *f = &plan->field[i];
		struct turn *t = &p->turn[i];

		at = data + (f->offset & 0x7f);
		if (at + 4 > end)
			return 0;
		*(__u32 *)at = (*(__u32 *)at & ~bpf_htonl(f->mask)) | bpf_htonl(t->value);
		sum = words(t->value & f->network_mask);
		network += f->odd ? checksum_swap(sum) : sum;
		sum = words(t->value & f->udp_mask);
		udp += f->odd ? checksum_swap(sum) : sum;
		step(f, t);
	}
	if (o->stamp) {
		at = data + (o->stamp & LENGTH_MASK);
		if (at + STAMP_SIZE > end)
			return 0;
		sum = checksum_fold(stamp_write(at, plan->id, p->frames, now + settings.tai));
		udp += o->odd ? checksum_swap(sum) : sum;
	}
	at = data + (o->udp & 0x7f);
	if (at + UDP_SIZE > end)
		return 0;
	sum = ~checksum_fold(udp) & 0xffff;
	*(__u16 *)(at + 6) = bpf_htons(sum ? sum : 0xffff);
	if (o->network) {
		at = data + (o->network & 0x7f);
		if (at + 12 > end)
			return 0;
		*(__u16 *)(at + 10) = bpf_htons(~checksum_fold(network) & 0xffff);
	}
	p->wire_bytes += o->length + WIRE_OVERHEAD;
	p->payload_bytes += o->length - o->udp - UDP_SIZE;
	if (o->length != settings.length)
		return bpf_xdp_adjust_tail(ctx, (int)o->length - (int)settings.length) == 0;
	return 1;
}

#endif
