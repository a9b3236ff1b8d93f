/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Pieces the twins share; the Rust twins' parts/ folder in C: growth.rs (as Linux since 3.18 counts), decrease.rs,
 * clock.rs, round.rs. The kernel forces: whole segments instead of bytes, no floating point, no signed division.
 */
#pragma once

/* Tick frequency for algorithms that compute in ticks; the Rust twins' value, not the machine's. */
#ifndef HZ
#define HZ 250
#endif

#define FLOOR 2u

ALWAYS_INLINE u32 least(u32 a, u32 b)
{
	return a < b ? a : b;
}

ALWAYS_INLINE u32 most(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* clock.rs */

ALWAYS_INLINE u32 ticks_at(u64 us)
{
	return us * HZ / 1000000;
}

/* Rounds up: a nonzero duration is at least one tick. */
ALWAYS_INLINE u32 ticks_span(u32 us)
{
	return ((u64)us * HZ + 999999) / 1000000;
}

/* decrease.rs */

ALWAYS_INLINE u32 landing(u32 segments)
{
	return most(segments, FLOOR);
}

ALWAYS_INLINE u32 half(struct tcp_sock *tp)
{
	return landing(tp->snd_cwnd / 2);
}

/* The window to restore after a spurious reduction: the one before it. */
ALWAYS_INLINE u32 undone(struct tcp_sock *tp)
{
	return most(tp->snd_cwnd, tp->prior_cwnd);
}

/* growth.rs */

ALWAYS_INLINE bool in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Whether cwnd limited the sender. In slow start, using more than half of cwnd is enough. */
ALWAYS_INLINE bool is_limited_by_window(struct tcp_sock *tp)
{
	if (BITS(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Returns the segments that slow start did not use because ssthresh was reached. */
ALWAYS_INLINE u32 slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 window = tp->snd_cwnd;
	u32 used = least(acked, tp->snd_ssthresh - window);

	tp->snd_cwnd = least(window + used, tp->snd_cwnd_clamp);
	return acked - used;
}

/* One segment of window for every `needed` segments of credit. */
ALWAYS_INLINE void additive(struct tcp_sock *tp, u32 needed, u32 segments)
{
	u32 window = tp->snd_cwnd;
	u32 credit = tp->snd_cwnd_cnt;

	if (needed == 0)
		needed = 1;
	/* Credit saved while `needed` was larger counts for one step only. */
	if (credit >= needed) {
		credit = 0;
		window++;
	}
	credit += segments;
	if (credit >= needed) {
		u32 steps = credit / needed;

		credit -= steps * needed;
		window += steps;
	}
	tp->snd_cwnd_cnt = credit;
	tp->snd_cwnd = least(window, tp->snd_cwnd_clamp);
}

ALWAYS_INLINE void reno(struct tcp_sock *tp, u32 acked)
{
	if (in_slow_start(tp)) {
		acked = slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	additive(tp, tp->snd_cwnd, acked);
}

/* round.rs: RTTs per round trip. */

#define NONE_US 0x7fffffffu

struct round {
	u32 end;
	u32 base_us;
	u32 min_us;
	u32 samples;
};

ALWAYS_INLINE void round_forget(struct round *round)
{
	round->base_us = NONE_US;
	round->min_us = NONE_US;
	round->samples = 0;
}

/* Add a microsecond, so that the RTT is never zero. */
ALWAYS_INLINE void round_sample(struct round *round, s32 rtt_us)
{
	if (rtt_us < 0)
		return;
	u32 rtt = most(rtt_us, 1) + 1;
	round->base_us = least(round->base_us, rtt);
	round->min_us = least(round->min_us, rtt);
	round->samples++;
}

ALWAYS_INLINE bool round_is_over(const struct round *round, struct tcp_sock *tp)
{
	return (s32)(tp->snd_una - round->end) > 0;
}

ALWAYS_INLINE void round_begin(struct round *round, struct tcp_sock *tp)
{
	round->end = tp->snd_nxt;
	round->min_us = NONE_US;
	round->samples = 0;
}
