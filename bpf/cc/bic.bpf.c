/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * BIC: binary search for the window at which loss last occurred, then slow probing beyond it.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/bic.rs.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#ifndef FAST_CONVERGENCE
#define FAST_CONVERGENCE 1
#endif
/* Of 1024. */
#ifndef BETA
#define BETA 819u
#endif
#ifndef LOW_WINDOW
#define LOW_WINDOW 14u
#endif
#ifndef MAX_INCREMENT
#define MAX_INCREMENT 16u
#endif
#ifndef SMOOTH_PART
#define SMOOTH_PART 20u
#endif
/* Steps are 1/B of the distance. */
#define B 4u
/* Segments an ACK covers at the start, 2.0 in 1/16. */
#define ACK_RATIO 32u

struct bic {
	u32 needed;
	u32 last_max;
	u32 last_window;
	u32 last_time;
	u32 ack_ratio;
};
FITS(bic);

INTERNALS
{
	const struct bic *bic = state(sk);

	SHOW(0, bic->last_max, 1);
	SHOW(1, bic->ack_ratio, 16);
}

ALWAYS_INLINE void forget(struct bic *bic)
{
	bic->needed = 1;
	bic->last_max = 0;
	bic->last_window = 0;
	bic->last_time = 0;
	bic->ack_ratio = ACK_RATIO;
}

ENTRY1(void, bic_init, struct sock *, sk)
{
	forget(state(sk));
}

ENTRY2(void, bic_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct bic *bic = state(sk);

	if (BITS(inet_csk(sk), icsk_ca_state) == OPEN)
		bic->ack_ratio += least(sample->pkts_acked, 1000) - bic->ack_ratio / 16;
}

/* Segments to be acknowledged per step at this window. */
ALWAYS_INLINE u32 needed_at(const struct bic *bic, u32 window)
{
	u32 top = bic->last_max;
	u32 smooth = window * SMOOTH_PART / B;
	u32 linear = window / MAX_INCREMENT;
	u32 needed = linear;

	if (window <= LOW_WINDOW)
		return window;
	if (window < top) {
		u32 distance = (top - window) / B;

		if (distance <= 1)
			needed = smooth;
		else if (distance <= MAX_INCREMENT)
			needed = window / distance;
	} else if (window < top + B) {
		needed = smooth;
	} else if (window < top + MAX_INCREMENT * (B - 1)) {
		needed = window * (B - 1) / (window - top);
	}
	/* No loss yet: at least 5 % a round trip. */
	if (top == 0)
		needed = least(needed, 20);
	return most(needed * 16 / most(bic->ack_ratio, 1), 1);
}

ENTRY3(void, bic_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *bic = state(sk);

	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp)) {
		acked = slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	u32 now = ticks_at(now_us(tp)), window = tp->snd_cwnd;

	if (bic->last_window != window || now - bic->last_time > HZ / 32) {
		bic->last_window = window;
		bic->last_time = now;
		bic->needed = needed_at(bic, window);
	}
	additive(tp, bic->needed, acked);
}

ENTRY1(u32, bic_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *bic = state(sk);
	u32 window = tp->snd_cwnd;

	tp->snd_cwnd_cnt = 0;
	if (FAST_CONVERGENCE && window < bic->last_max)
		bic->last_max = (u64)window * (1024 + BETA) / 2048;
	else
		bic->last_max = window;
	return landing(window <= LOW_WINDOW ? window / 2 : (u64)window * BETA / 1024);
}

ENTRY2(void, bic_set_state, struct sock *, sk, u8, phase)
{
	/* A timeout clears everything. */
	if (phase == LOSS)
		forget(state(sk));
}

ENTRY1(u32, bic_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)bic_init,
	.pkts_acked = (void *)bic_pkts_acked,
	.cong_avoid = (void *)bic_cong_avoid,
	.ssthresh = (void *)bic_ssthresh,
	.set_state = (void *)bic_set_state,
	.undo_cwnd = (void *)bic_undo_cwnd,
	.name = NAME,
};
