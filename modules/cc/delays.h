/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* RTT history of a connection, and its queueing delay. */
#ifndef WEIR_CC_DELAYS_H
#define WEIR_CC_DELAYS_H

#define UNKNOWN 0xffffffff /* us: no sample yet */

struct ledbat_delays {
	__u32 base[LEDBAT_MINUTES]; /* us: min. RTT of each minute, the current one first */
	__u32 recent[4];            /* us: the last RTT samples, the latest first */
	__u32 minute;               /* tick: start of the current minute */
};

static __always_inline __u32 ticks(void)
{
	return bpf_ktime_get_ns() >> LEDBAT_TICK_SHIFT;
}

static __always_inline __u32 us_to_ticks(__u32 us)
{
	return (__u64)us * 1000 >> LEDBAT_TICK_SHIFT;
}

/*
 * Reports whether some ticks have passed since one. Another CPU may have read its clock later: a
 * tick up to a minute ahead has not passed.
 */
static __always_inline int has_passed(__u32 now, __u32 since, __u32 ticks)
{
	return now - since - ticks <= 0U - LEDBAT_MINUTE - ticks;
}

static __always_inline void init_delays(struct ledbat_delays *d, __u32 now)
{
#pragma unroll
	for (int i = 0; i < LEDBAT_MINUTES; i++)
		d->base[i] = UNKNOWN;
#pragma unroll
	for (int i = 0; i < 4; i++)
		d->recent[i] = UNKNOWN;
	d->minute = now;
}

/* Returns the smaller one without a branch, since the verifier follows both ways of each. */
static __always_inline __u32 smaller(__u32 a, __u32 b)
{
	__s64 beyond = (__s64)a - (__s64)b, below = beyond >> 63;

	asm volatile("" : "+r"(below));
	return b + (beyond & below);
}

static __always_inline void add_delay(struct ledbat_delays *d, __u32 rtt)
{
	d->base[0] = smaller(rtt, d->base[0]);
#pragma unroll
	for (int i = 3; i > 0; i--)
		d->recent[i] = d->recent[i - 1];
	d->recent[0] = rtt;
}

static __always_inline __u32 base_of(const struct ledbat_delays *d)
{
	__u32 least = UNKNOWN;

#pragma unroll
	for (int i = 0; i < LEDBAT_MINUTES; i++)
		least = smaller(d->base[i], least);
	return least;
}

/* Returns the queueing delay in us. */
static __always_inline __u32 delay_of(const struct ledbat_delays *d, __u32 base)
{
	__u32 least = UNKNOWN;

#pragma unroll
	for (int i = 0; i < 4; i++)
		least = smaller(d->recent[i], least);
	return least == UNKNOWN || least < base ? 0 : least - base;
}

static __always_inline void rotate_minutes(struct ledbat_delays *d, __u32 now)
{
	if (!has_passed(now, d->minute, LEDBAT_MINUTE))
		return;
	d->minute = now;
#pragma unroll
	for (int i = LEDBAT_MINUTES - 1; i > 0; i--)
		d->base[i] = d->base[i - 1];
	d->base[0] = UNKNOWN;
}

/* Returns 1 / GAIN. */
static __always_inline __u32 gain_divisor(__u32 target, __u32 base)
{
	__u32 twice = 2 * target;

	if (base == 0 || base >= twice)
		return 1;
	__u32 n = (twice + base - 1) / base;
	return n > 16 ? 16 : n;
}

#endif /* WEIR_CC_DELAYS_H */
