/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * TCP-Illinois: loss says when to cut, the queueing delay says how fast to grow and how deep to cut.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/illinois.rs, variant linux.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#ifndef WINDOW_THRESHOLD
#define WINDOW_THRESHOLD 15u
#endif
#ifndef THETA
#define THETA 5
#endif
/* Alpha in 1/128. */
#define ALPHA_MIN 38u
#define ALPHA_ONE 128u
#define ALPHA_MAX 1280u
/* Beta in 1/64. */
#define BETA_ONE 64u
#define BETA_MIN 8u
#define BETA_MAX 32u
/* Longer RTTs are cut to this, so that products fit. */
#define RTT_LIMIT_US (0xffffffffu / ALPHA_MAX)

struct illinois {
	u64 sum;
	u32 samples;
	u32 end;
	u32 alpha;
	u32 beta;
	u32 base_rtt;
	u32 max_rtt;
	u32 credit;
	/* By the ACK in hand, with what was SACKed before. */
	u32 acked;
	/* The delay has been above the low zone; round trips in the low zone since. */
	u8 has_risen;
	u8 low_rounds;
};
FITS(illinois);

INTERNALS
{
	const struct illinois *illinois = state(sk);

	SHOW(0, illinois->alpha, ALPHA_ONE);
	SHOW(1, illinois->beta, BETA_ONE);
}

ALWAYS_INLINE void begin_round(struct illinois *illinois, u32 end)
{
	illinois->end = end;
	illinois->samples = 0;
	illinois->sum = 0;
}

ENTRY1(void, illinois_init, struct sock *, sk)
{
	struct illinois *illinois = state(sk);

	illinois->alpha = ALPHA_MAX;
	illinois->beta = BETA_MAX;
	illinois->base_rtt = 0xffffffff;
	illinois->max_rtt = 0;
	illinois->credit = 0;
	illinois->acked = 0;
	illinois->has_risen = false;
	illinois->low_rounds = 0;
	begin_round(illinois, tcp_sk(sk)->snd_una);
}

ENTRY2(void, illinois_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct illinois *illinois = state(sk);

	illinois->acked = sample->pkts_acked;
	if (sample->rtt_us < 0)
		return;
	u32 rtt = least(most(sample->rtt_us, 1), RTT_LIMIT_US);

	illinois->base_rtt = least(illinois->base_rtt, rtt);
	illinois->max_rtt = most(illinois->max_rtt, rtt);
	illinois->samples++;
	illinois->sum += rtt;
}

/* Above the low zone, a hundredth of the largest delay: k1/(k2 + d_a). */
ALWAYS_INLINE u32 alpha_above(u64 mean, u64 largest)
{
	u64 low = largest / 100;

	mean -= low;
	largest -= low;
	u64 divisor = largest + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN;

	return divisor ? largest * ALPHA_MAX / divisor : ALPHA_MAX;
}

ALWAYS_INLINE u32 alpha_at(struct illinois *illinois, u64 mean, u64 largest)
{
	if (mean > largest / 100) {
		illinois->has_risen = true;
		return alpha_above(mean, largest);
	}
	if (illinois->has_risen) {
		illinois->low_rounds++;
		if (illinois->low_rounds < THETA)
			return illinois->alpha;
	}
	illinois->low_rounds = 0;
	illinois->has_risen = false;
	return ALPHA_MAX;
}

ALWAYS_INLINE u32 beta_at(u64 mean, u64 largest)
{
	u64 low = largest / 10, high = largest * 8 / 10;

	if (mean <= low)
		return BETA_MIN;
	if (mean >= high || high <= low)
		return BETA_MAX;
	return (BETA_MIN * (high - mean) + BETA_MAX * (mean - low)) / (high - low);
}

/* Once a round trip. */
ALWAYS_INLINE void adapt(struct illinois *illinois, u32 window)
{
	if (window < WINDOW_THRESHOLD) {
		illinois->alpha = ALPHA_ONE;
		illinois->beta = BETA_MAX;
	} else if (illinois->samples > 0) {
		u64 largest = illinois->max_rtt - illinois->base_rtt;
		u64 mean = illinois->sum / illinois->samples;

		mean = mean > illinois->base_rtt ? mean - illinois->base_rtt : 0;
		illinois->alpha = alpha_at(illinois, mean, largest);
		illinois->beta = beta_at(mean, largest);
	}
}

ENTRY3(void, illinois_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct illinois *illinois = state(sk);

	if ((s32)(tp->snd_una - illinois->end) > 0) {
		adapt(illinois, tp->snd_cwnd);
		begin_round(illinois, tp->snd_nxt);
	}
	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp)) {
		slow_start(tp, acked);
		return;
	}
	u32 window = most(tp->snd_cwnd, 1);

	illinois->credit += illinois->acked;
	illinois->acked = 0;
	u64 steps = (u64)illinois->credit * illinois->alpha / ALPHA_ONE;

	if (steps >= window) {
		tp->snd_cwnd = least(window + steps / window, tp->snd_cwnd_clamp);
		illinois->credit = 0;
	}
}

ENTRY1(u32, illinois_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct illinois *illinois = state(sk);
	u32 window = tp->snd_cwnd;

	tp->snd_cwnd_cnt = 0;
	illinois->credit = 0;
	return landing(window - (u32)((u64)window * illinois->beta / BETA_ONE));
}

ENTRY2(void, illinois_set_state, struct sock *, sk, u8, phase)
{
	struct illinois *illinois = state(sk);

	if (phase == LOSS) {
		illinois->alpha = ALPHA_ONE;
		illinois->beta = BETA_MAX;
		illinois->low_rounds = 0;
		illinois->has_risen = false;
		begin_round(illinois, tcp_sk(sk)->snd_nxt);
	}
}

ENTRY1(u32, illinois_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)illinois_init,
	.pkts_acked = (void *)illinois_pkts_acked,
	.cong_avoid = (void *)illinois_cong_avoid,
	.ssthresh = (void *)illinois_ssthresh,
	.set_state = (void *)illinois_set_state,
	.undo_cwnd = (void *)illinois_undo_cwnd,
	.name = NAME,
};
