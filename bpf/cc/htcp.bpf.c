/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * H-TCP: the longer since the last congestion, the faster the window grows; the cut fits the queue.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/htcp.rs, variant linux.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#define ONE 128u
#define BETA_MIN 64u
#define BETA_MAX 102u
/* Microseconds; in whole ticks, rounded up. */
#define SHORT_RTT_US 10000u
#define RTT_MAX_STEP_US 20000u

struct htcp {
	u32 alpha;
	u32 last_congestion;
	u32 rtt_min;
	u32 rtt_max;
	u32 undo_last_congestion;
	u32 undo_rtt_max;
	u32 undo_old_rate_max;
	u32 covered;
	u32 counted;
	u32 counted_since;
	u32 rate;
	u32 rate_max;
	u32 old_rate_max;
	u32 credit;
	u8 beta;
	u8 ratio_mode;
	u8 pending;
};
FITS(htcp);

INTERNALS
{
	const struct htcp *htcp = state(sk);

	SHOW(0, htcp->alpha, ONE);
	SHOW(1, htcp->beta, ONE);
	SHOW(2, htcp->rtt_min, HZ);
	SHOW(3, htcp->rtt_max, HZ);
	SHOW_INSTANT(4, htcp->last_congestion, HZ);
}

ENTRY1(void, htcp_init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *htcp = state(sk);
	u32 now = ticks_at(now_us(tp));

	htcp->alpha = ONE;
	htcp->beta = BETA_MIN;
	htcp->last_congestion = now;
	htcp->counted_since = now;
	htcp->covered = 1;
	htcp->rtt_min = 0;
	htcp->rtt_max = 0;
	htcp->counted = 0;
	htcp->rate = 0;
	htcp->rate_max = 0;
	htcp->old_rate_max = 0;
	htcp->credit = 0;
	htcp->ratio_mode = false;
	htcp->pending = false;
}

ALWAYS_INLINE void measure_rtt(struct htcp *htcp, u32 rtt_us, u8 phase)
{
	u32 sample = ticks_span(most(rtt_us, 1));

	if (htcp->rtt_min == 0 || sample < htcp->rtt_min)
		htcp->rtt_min = sample;
	if (phase == OPEN) {
		htcp->rtt_max = most(htcp->rtt_max, htcp->rtt_min);
		if (sample > htcp->rtt_max && sample <= htcp->rtt_max + ticks_span(RTT_MAX_STEP_US))
			htcp->rtt_max = sample;
	}
}

/* Throughput in segments a second, smoothed over round trips; its maximum since the last event. */
ALWAYS_INLINE void measure_rate(struct htcp *htcp, struct tcp_sock *tp, u32 covered, u8 phase)
{
	u32 now = ticks_at(now_us(tp));

	if (phase != OPEN && phase != DISORDER) {
		htcp->counted = 0;
		htcp->counted_since = now;
		return;
	}
	htcp->counted += covered;
	u32 elapsed = now - htcp->counted_since;
	u32 step = most(htcp->alpha / ONE, 1);

	/* In 32 bits: no count reaches a window smaller than alpha. */
	if (htcp->counted < tp->snd_cwnd - step || htcp->rtt_min == 0 || elapsed < htcp->rtt_min || elapsed == 0)
		return;
	u32 current = (u64)htcp->counted * HZ / elapsed;

	/* The first round trips after an event say little. */
	if ((now - htcp->last_congestion) / htcp->rtt_min <= 3) {
		htcp->rate = current;
		htcp->rate_max = current;
	} else {
		htcp->rate = ((u64)3 * htcp->rate + current) / 4;
		htcp->rate_max = most(htcp->rate_max, htcp->rate);
	}
	htcp->counted = 0;
	htcp->counted_since = now;
}

ENTRY2(void, htcp_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct htcp *htcp = state(sk);
	u8 phase = BITS(inet_csk(sk), icsk_ca_state);

	if (phase == OPEN)
		htcp->covered = sample->pkts_acked;
	if (sample->rtt_us >= 0)
		measure_rtt(htcp, sample->rtt_us, phase);
	measure_rate(htcp, tcp_sk(sk), sample->pkts_acked, phase);
}

ALWAYS_INLINE void update_alpha(struct htcp *htcp, u32 now)
{
	u64 elapsed = now - htcp->last_congestion;
	u64 factor = 1;

	if (elapsed > HZ) {
		u64 beyond = elapsed - HZ;

		factor = 1 + (10 * beyond + (beyond / 2) * (beyond / 2) / HZ) / HZ;
	}
	if (htcp->rtt_min > 0) {
		u32 scale = most(4, least(80, 8 * HZ / (10 * htcp->rtt_min)));

		factor = 8 * factor / scale;
		if (factor == 0)
			factor = 1;
	}
	u64 alpha = 2 * factor * (ONE - htcp->beta);
	htcp->alpha = alpha > 0xffffffff ? 0xffffffff : most(alpha, 1);
}

ENTRY3(void, htcp_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *htcp = state(sk);

	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp)) {
		slow_start(tp, acked);
		return;
	}
	u32 window = tp->snd_cwnd;
	if ((u64)htcp->credit * htcp->alpha / ONE >= window) {
		tp->snd_cwnd = least(window + 1, tp->snd_cwnd_clamp);
		htcp->credit = 0;
		update_alpha(htcp, ticks_at(now_us(tp)));
	} else {
		htcp->credit += htcp->covered;
	}
	htcp->covered = 1;
}

ALWAYS_INLINE void update_beta(struct htcp *htcp)
{
	u64 rate = htcp->rate_max, old = htcp->old_rate_max;

	htcp->old_rate_max = htcp->rate_max;
	if (5 * rate < 4 * old || 5 * rate > 6 * old) {
		htcp->beta = BETA_MIN;
		htcp->ratio_mode = false;
		return;
	}
	/* The event after the throughput settled still cuts by half. */
	bool measured = htcp->ratio_mode && htcp->rtt_min > ticks_span(SHORT_RTT_US);

	htcp->ratio_mode = true;
	htcp->beta = BETA_MIN;
	if (measured && htcp->rtt_max > 0)
		htcp->beta = most(BETA_MIN, least(BETA_MAX, htcp->rtt_min * ONE / htcp->rtt_max));
}

ENTRY1(u32, htcp_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *htcp = state(sk);
	u32 now = ticks_at(now_us(tp));

	tp->snd_cwnd_cnt = 0;
	htcp->credit = 0;
	update_beta(htcp);
	u32 kept = tp->snd_cwnd * htcp->beta / ONE;

	if (htcp->rtt_max > htcp->rtt_min)
		htcp->rtt_max = htcp->rtt_min + (htcp->rtt_max - htcp->rtt_min) * 95 / 100;
	/* Alpha keeps the epoch's last value until the first increment after it. */
	update_alpha(htcp, now);
	return landing(kept);
}

ENTRY2(void, htcp_set_state, struct sock *, sk, u8, phase)
{
	struct htcp *htcp = state(sk);

	if (phase == LOSS)
		htcp->credit = 0;
	if (phase >= CWR) {
		htcp->undo_last_congestion = htcp->last_congestion;
		htcp->undo_rtt_max = htcp->rtt_max;
		htcp->undo_old_rate_max = htcp->old_rate_max;
		htcp->pending = true;
		htcp->last_congestion = ticks_at(now_us(tcp_sk(sk)));
	}
	if (phase == OPEN) {
		if (htcp->pending)
			htcp->last_congestion = ticks_at(now_us(tcp_sk(sk)));
		htcp->pending = false;
	}
}

ENTRY1(u32, htcp_undo_cwnd, struct sock *, sk)
{
	struct htcp *htcp = state(sk);

	if (htcp->pending) {
		htcp->last_congestion = htcp->undo_last_congestion;
		htcp->rtt_max = htcp->undo_rtt_max;
		htcp->old_rate_max = htcp->undo_old_rate_max;
		htcp->pending = false;
	}
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)htcp_init,
	.pkts_acked = (void *)htcp_pkts_acked,
	.cong_avoid = (void *)htcp_cong_avoid,
	.ssthresh = (void *)htcp_ssthresh,
	.set_state = (void *)htcp_set_state,
	.undo_cwnd = (void *)htcp_undo_cwnd,
	.name = NAME,
};
