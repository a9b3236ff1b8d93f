/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * LEDBAT: a background transfer that keeps the queue at a target delay and yields to everyone else.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/ledbat.rs.
 *
 * The kernel forces:
 * - Fractions of a segment are in 1/65536, the gain in 1/256.
 */

#ifndef TARGET_US
#define TARGET_US 100000u
#endif
/* In 1/256. */
#ifndef GAIN
#define GAIN 256u
#endif
#ifndef SLOW_START
#define SLOW_START 0
#endif
#define ONE 65536
#define MINUTE_US 60000000ull
/* BASE_HISTORY in minutes, CURRENT_FILTER in samples. */
#define MINUTES 10
#define SAMPLES 4
/* ALLOWED_INCREASE: segments the window may exceed the flight by. */
#define ALLOWED_INCREASE 1u
#define NONE 0xffffffffu

struct ledbat {
	/* Smallest delay of this minute and the nine before, newest first. */
	u32 base[MINUTES];
	u32 current[SAMPLES];
	u32 minute;
	s32 held;
	u8 next;
	u8 slow_start;
};
FITS(ledbat);

ALWAYS_INLINE u32 smallest(const u32 *delays, int count)
{
	u32 found = NONE;

	for (int i = 0; i < count; i++)
		found = least(found, delays[i]);
	return found;
}

/* Microseconds; NONE before the first sample. */
ALWAYS_INLINE u32 queueing(const struct ledbat *ledbat)
{
	u32 current = smallest(ledbat->current, SAMPLES), base = smallest(ledbat->base, MINUTES);

	if (current == NONE || base == NONE)
		return NONE;
	return current > base ? current - base : 0;
}

INTERNALS
{
	u32 delay = queueing(state(sk));

	SHOW(0, delay == NONE ? 0 : delay, delay == NONE ? MISSING : 1000000);
}

ENTRY1(void, ledbat_init, struct sock *, sk)
{
	struct ledbat *ledbat = state(sk);

	for (int i = 0; i < MINUTES; i++)
		ledbat->base[i] = NONE;
	for (int i = 0; i < SAMPLES; i++)
		ledbat->current[i] = NONE;
	ledbat->minute = now_us(tcp_sk(sk)) / MINUTE_US;
	ledbat->held = 0;
	ledbat->next = 0;
	ledbat->slow_start = SLOW_START;
}

/* Older minutes move on; what leaves the last place is forgotten. */
ALWAYS_INLINE void next_minute(struct ledbat *ledbat)
{
	for (int i = MINUTES - 1; i > 0; i--)
		ledbat->base[i] = ledbat->base[i - 1];
	ledbat->base[0] = NONE;
}

ENTRY2(void, ledbat_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct ledbat *ledbat = state(sk);

	if (sample->rtt_us < 0)
		return;
	u32 delay = most(sample->rtt_us, 1);
	u32 minute = now_us(tcp_sk(sk)) / MINUTE_US;

	for (int i = 0; i < MINUTES && ledbat->minute != minute; i++) {
		next_minute(ledbat);
		ledbat->minute++;
	}
	ledbat->minute = minute;
	ledbat->base[0] = least(ledbat->base[0], delay);
	/* The places in turn, without an index that the verifier would have to bound. */
	for (int i = 0; i < SAMPLES; i++)
		if (i == ledbat->next)
			ledbat->current[i] = delay;
	ledbat->next = (ledbat->next + 1) % SAMPLES;
}

/* Whole segments now, the rest later. */
ALWAYS_INLINE void move(struct ledbat *ledbat, struct tcp_sock *tp, s64 fraction)
{
	s64 held = ledbat->held + fraction;
	u32 window = tp->snd_cwnd;

	if (held >= ONE) {
		u32 steps = (u64)held / ONE;

		held -= (s64)steps * ONE;
		window += steps;
	} else if (held <= -ONE) {
		u32 steps = (u64)-held / ONE;

		held += (s64)steps * ONE;
		window = landing(window > steps ? window - steps : 0);
	}
	ledbat->held = held;
	tp->snd_cwnd = least(window, tp->snd_cwnd_clamp);
}

ENTRY3(void, ledbat_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbat *ledbat = state(sk);
	u32 delay = queueing(ledbat);

	if (delay == NONE)
		return;
	if (ledbat->slow_start && in_slow_start(tp) && delay < TARGET_US / 4 * 3) {
		if (is_limited_by_window(tp))
			slow_start(tp, acked);
		return;
	}
	ledbat->slow_start = false;
	bool is_below = delay < TARGET_US;
	u64 off = is_below ? TARGET_US - delay : delay - TARGET_US;
	u64 step = GAIN * off * acked * (ONE / 256) / ((u64)TARGET_US * most(tp->snd_cwnd, 1));

	if (is_below && off > 0 && !is_limited_by_window(tp))
		return;
	/* Far above the target the law would take more than the window has. */
	if (step > (u64)acked * ONE && !is_below)
		step = (u64)acked * ONE;
	move(ledbat, tp, is_below ? (s64)step : -(s64)step);
	u32 flight = tp->packets_out + tp->retrans_out - tp->sacked_out - tp->lost_out + acked;

	tp->snd_cwnd = landing(least(tp->snd_cwnd, flight + ALLOWED_INCREASE));
}

ENTRY1(u32, ledbat_ssthresh, struct sock *, sk)
{
	struct ledbat *ledbat = state(sk);

	tcp_sk(sk)->snd_cwnd_cnt = 0;
	ledbat->held = 0;
	return half(tcp_sk(sk));
}

ENTRY2(void, ledbat_set_state, struct sock *, sk, u8, phase)
{
	struct ledbat *ledbat = state(sk);

	if (phase == LOSS)
		ledbat->slow_start = false;
}

ENTRY1(u32, ledbat_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)ledbat_init,
	.pkts_acked = (void *)ledbat_pkts_acked,
	.cong_avoid = (void *)ledbat_cong_avoid,
	.ssthresh = (void *)ledbat_ssthresh,
	.set_state = (void *)ledbat_set_state,
	.undo_cwnd = (void *)ledbat_undo_cwnd,
	.name = NAME,
};
