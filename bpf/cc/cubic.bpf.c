/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CUBIC: the window is a cubic function of the time since the last congestion, flat where that happened.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/cubic.rs, variant linux.
 *
 * The kernel has its own; this one takes parameters, and is for comparing the two.
 *
 * The kernel forces:
 * - The cube root is found bit by bit; times more than 256 s from K count as that, so that the cube fits.
 * - How long nothing was sent is known in the kernel's own ticks (KERNEL_HZ).
 */

#ifndef FAST_CONVERGENCE
#define FAST_CONVERGENCE 1
#endif
#ifndef FRIENDLINESS
#define FRIENDLINESS 1
#endif
/* Of 1024. */
#ifndef BETA
#define BETA 717u
#endif
/* C in 1/10240. */
#ifndef SCALE
#define SCALE 41u
#endif

/* Times of the curve are in 1/1024 s. */
#define SECOND 1024u
#define LONGEST (256u * SECOND)
/* HyStart: least window to judge, least samples in a round, largest gap between the ACKs of a train. */
#define LOW_WINDOW 16u
#define SAMPLES 8
#define TRAIN_GAP_US 2000u
/* What four bursts take at the pacing rate: 64 KiB less the room for headers each, at most a millisecond. */
#define BURST_BYTES (4 * 65215ull)
#define BURST_MOST_US 1000u
#define NONE 0xffffffffu

struct cubic {
	u32 needed;
	u32 last_max;
	u32 last_window;
	u32 last_time;
	u32 origin;
	u32 k;
	/* Microseconds; 0 before the first sample. */
	u32 delay_min;
	u32 epoch_start;
	u32 acked;
	u32 reno_window;
	/* HyStart. */
	u32 end;
	u32 round_start;
	u32 last_ack;
	u32 round_rtt;
	u8 samples;
	u8 found;
	u8 has_epoch;
};
FITS(cubic);

INTERNALS
{
	const struct cubic *cubic = state(sk);

	SHOW(0, cubic->last_max, 1);
	SHOW(1, cubic->k, SECOND);
	SHOW(2, cubic->reno_window, 1);
}

ALWAYS_INLINE void forget(struct cubic *cubic, u32 end)
{
	cubic->needed = 1;
	cubic->last_max = 0;
	cubic->last_window = 0;
	cubic->last_time = 0;
	cubic->origin = 0;
	cubic->k = 0;
	cubic->delay_min = 0;
	cubic->acked = 0;
	cubic->reno_window = 0;
	cubic->has_epoch = false;
	cubic->end = end;
	cubic->round_start = 0;
	cubic->last_ack = 0;
	cubic->round_rtt = NONE;
	cubic->samples = 0;
	cubic->found = false;
}

ENTRY1(void, cubic_init, struct sock *, sk)
{
	forget(state(sk), tcp_sk(sk)->snd_una);
}

/* How long an ACK train may last: half of the smallest RTT and four bursts, all of it where the stack paces. */
ALWAYS_INLINE u32 train_limit(const struct cubic *cubic, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	u64 window = (u64)most(tp->snd_cwnd, tp->packets_out) * most(tp->mss_cache, 1);
	u64 paced = percent * window;
	u64 burst_us = BURST_BYTES * (tp->srtt_us / 8) * 100 / (paced > 0 ? paced : 1);
	u32 limit = cubic->delay_min + (burst_us < BURST_MOST_US ? burst_us : BURST_MOST_US);

	return sk->sk_pacing_status == PACING_NONE ? limit / 2 : limit;
}

ALWAYS_INLINE void watch_slow_start(struct cubic *cubic, struct sock *sk, u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = now_us(tp);
	bool found = false;

	if ((s32)(tp->snd_una - cubic->end) > 0) {
		cubic->end = tp->snd_nxt;
		cubic->round_start = now;
		cubic->last_ack = now;
		cubic->round_rtt = NONE;
		cubic->samples = 0;
	}
	/* The round begins however small the window is. */
	if (tp->snd_cwnd < LOW_WINDOW)
		return;
	if (now - cubic->last_ack <= TRAIN_GAP_US) {
		cubic->last_ack = now;
		found = now - cubic->round_start > train_limit(cubic, sk);
	}
	cubic->round_rtt = least(cubic->round_rtt, rtt_us);
	if (cubic->samples < SAMPLES) {
		cubic->samples++;
	} else {
		u32 eta = most(4000, least(16000, cubic->delay_min / 8));

		found = found || cubic->round_rtt > cubic->delay_min + eta;
	}
	if (found) {
		cubic->found = true;
		tp->snd_ssthresh = tp->snd_cwnd;
	}
}

ENTRY2(void, cubic_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = state(sk);

	if (sample->rtt_us < 0)
		return;
	/* In the first second of an epoch the queue of the last one may still be there. */
	if (cubic->has_epoch && ticks_at(now_us(tp)) - cubic->epoch_start < HZ)
		return;
	u32 rtt = most(sample->rtt_us, 1);

	if (cubic->delay_min == 0 || rtt < cubic->delay_min)
		cubic->delay_min = rtt;
	if (!cubic->found && in_slow_start(tp))
		watch_slow_start(cubic, sk, rtt);
}

ALWAYS_INLINE u32 cube_root(u64 of)
{
	u64 root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		u64 next = root | 1ull << bit;

		if (next * next * next <= of)
			root = next;
	}
	return root;
}

ALWAYS_INLINE void begin_epoch(struct cubic *cubic, u32 now, u32 window, u32 acked)
{
	cubic->epoch_start = now;
	cubic->has_epoch = true;
	cubic->acked = acked;
	cubic->reno_window = window;
	if (cubic->last_max <= window) {
		cubic->k = 0;
		cubic->origin = window;
	} else {
		cubic->k = cube_root(((1ull << 40) / (10 * SCALE)) * (cubic->last_max - window));
		cubic->origin = cubic->last_max;
	}
}

/* W in whole segments, a round trip from now: the cubic part is truncated before it is added. */
ALWAYS_INLINE u32 target(const struct cubic *cubic, u32 elapsed)
{
	u64 t = (u64)(elapsed + ticks_span(cubic->delay_min)) * SECOND / HZ;
	u64 k = cubic->k;
	u64 offset = t < k ? k - t : t - k;

	if (offset > LONGEST)
		offset = LONGEST;
	u64 delta = (10 * SCALE * offset * offset * offset) >> 40;

	if (t < k)
		return cubic->origin > delta ? cubic->origin - delta : 0;
	return cubic->origin + delta;
}

/* Reno's window, by the same count of segments, is a lower bound. */
ALWAYS_INLINE void reno_friendly(struct cubic *cubic, u32 window)
{
	u32 scale = 8 * (1024 + BETA) / 3 / (1024 - BETA);
	u32 price = most((u64)window * scale >> 3, 1);

	if (cubic->acked > price) {
		u32 steps = (cubic->acked - 1) / price;

		cubic->acked -= steps * price;
		cubic->reno_window += steps;
	}
	if (cubic->reno_window > window)
		cubic->needed = least(cubic->needed, window / (cubic->reno_window - window));
}

/* Segments to be acknowledged per step of the window. */
ALWAYS_INLINE void update(struct cubic *cubic, u32 now, u32 window, u32 acked)
{
	u32 since = now - cubic->last_time;

	cubic->acked += acked;
	if (cubic->last_window == window && since <= HZ / 32)
		return;
	/* The curve is looked at once a tick. */
	if (!cubic->has_epoch || since != 0) {
		cubic->last_window = window;
		cubic->last_time = now;
		if (!cubic->has_epoch)
			begin_epoch(cubic, now, window, acked);
		u32 goal = target(cubic, now - cubic->epoch_start);

		cubic->needed = goal > window ? window / (goal - window) : 100 * window;
		/* Before the first loss at least 5 % a round trip. */
		if (cubic->last_max == 0)
			cubic->needed = least(cubic->needed, 20);
	}
	if (FRIENDLINESS)
		reno_friendly(cubic, window);
	cubic->needed = most(cubic->needed, 2);
}

ENTRY3(void, cubic_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = state(sk);

	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp)) {
		acked = slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	update(cubic, ticks_at(now_us(tp)), tp->snd_cwnd, acked);
	additive(tp, cubic->needed, acked);
}

ENTRY1(u32, cubic_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = state(sk);
	u32 window = tp->snd_cwnd;

	tp->snd_cwnd_cnt = 0;
	cubic->has_epoch = false;
	if (FAST_CONVERGENCE && window < cubic->last_max)
		cubic->last_max = (u64)window * (1024 + BETA) / 2048;
	else
		cubic->last_max = window;
	return landing((u64)window * BETA / 1024);
}

ENTRY2(void, cubic_set_state, struct sock *, sk, u8, phase)
{
	/* A timeout clears everything. */
	if (phase == LOSS)
		forget(state(sk), tcp_sk(sk)->snd_nxt);
}

ENTRY2(void, cubic_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = state(sk);

	/* The epoch must not run on while nothing is sent, or it ends in a burst (RFC 9438 section 4.2). */
	if (event != CA_EVENT_TX_START || !cubic->has_epoch)
		return;
	u32 idle = (u64)(jiffies() - tp->lsndtime) * HZ / KERNEL_HZ;
	u32 now = ticks_at(now_us(tp));

	cubic->epoch_start = least(now - cubic->epoch_start, idle) + cubic->epoch_start;
}

ENTRY1(u32, cubic_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)cubic_init,
	.pkts_acked = (void *)cubic_pkts_acked,
	.cong_avoid = (void *)cubic_cong_avoid,
	.ssthresh = (void *)cubic_ssthresh,
	.set_state = (void *)cubic_set_state,
	.cwnd_event = (void *)cubic_cwnd_event,
	.undo_cwnd = (void *)cubic_undo_cwnd,
	.name = NAME,
};
