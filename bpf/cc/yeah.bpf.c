/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * YeAH: Scalable TCP while the queue is short, Reno (and draining) while it is not.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/yeah.rs.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#ifndef ALPHA
#define ALPHA 80u
#endif
#ifndef GAMMA
#define GAMMA 1u
#endif
#ifndef DELTA
#define DELTA 3
#endif
#ifndef EPSILON
#define EPSILON 1
#endif
#ifndef PHI
#define PHI 8u
#endif
#ifndef RHO
#define RHO 16u
#endif
/* Fast mode: one step per this many segments, as Scalable TCP. */
#define FAST_INTERVAL 100u
/* Fast rounds after which the Reno count starts over. */
#define ZETA 50u

struct yeah {
	struct round round;
	/* At the last look, in segments. */
	u32 queue;
	u32 slow_rounds;
	u32 fast_rounds;
	/* What a Reno flow competing with us would have. */
	u32 reno_count;
};
FITS(yeah);

INTERNALS
{
	const struct yeah *yeah = state(sk);

	SHOW(0, yeah->queue, 1);
	SHOW(1, yeah->reno_count, 1);
	SHOW(2, yeah->slow_rounds, 1);
}

ENTRY1(void, yeah_init, struct sock *, sk)
{
	struct yeah *yeah = state(sk);

	round_forget(&yeah->round);
	yeah->round.end = tcp_sk(sk)->snd_una;
	yeah->queue = 0;
	yeah->slow_rounds = 0;
	yeah->fast_rounds = 0;
	yeah->reno_count = 2;
}

ENTRY2(void, yeah_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct yeah *yeah = state(sk);

	round_sample(&yeah->round, sample->rtt_us);
}

/* Once a round trip: fast or slow? */
ALWAYS_INLINE void judge(struct yeah *yeah, struct tcp_sock *tp)
{
	u32 base = yeah->round.base_us, rtt = most(yeah->round.min_us, 1), window = tp->snd_cwnd;

	yeah->queue = (u64)window * (rtt - base) / rtt;
	if (yeah->queue <= ALPHA && rtt - base <= base / PHI) {
		yeah->fast_rounds++;
		if (yeah->fast_rounds > ZETA) {
			yeah->reno_count = 2;
			yeah->fast_rounds = 0;
		}
		yeah->slow_rounds = 0;
		return;
	}
	if (yeah->queue > ALPHA && window > yeah->reno_count) {
		u32 given_up = least(yeah->queue / GAMMA, window >> EPSILON);

		window = most(window - given_up, yeah->reno_count);
		tp->snd_cwnd = window;
		tp->snd_ssthresh = window;
	}
	yeah->reno_count = yeah->reno_count <= 2 ? most(window / 2, 2) : yeah->reno_count + 1;
	yeah->slow_rounds++;
}

ENTRY3(void, yeah_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct yeah *yeah = state(sk);

	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp))
		acked = slow_start(tp, acked);
	if (acked > 0) {
		u32 window = tp->snd_cwnd;

		additive(tp, yeah->slow_rounds == 0 ? least(window, FAST_INTERVAL) : window, acked);
	}
	if (round_is_over(&yeah->round, tp)) {
		if (yeah->round.samples > 2)
			judge(yeah, tp);
		round_begin(&yeah->round, tp);
	}
}

ENTRY1(u32, yeah_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct yeah *yeah = state(sk);
	u32 window = tp->snd_cwnd;
	u32 cut = most(window / 2, 2);

	tp->snd_cwnd_cnt = 0;
	if (yeah->slow_rounds < RHO)
		cut = most(least(yeah->queue, cut), window >> DELTA);
	yeah->fast_rounds = 0;
	yeah->reno_count = most(yeah->reno_count / 2, 2);
	return landing(window > cut ? window - cut : 0);
}

ENTRY2(void, yeah_set_state, struct sock *, sk, u8, phase)
{
	struct yeah *yeah = state(sk);

	if (phase == OPEN)
		round_begin(&yeah->round, tcp_sk(sk));
}

ENTRY2(void, yeah_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct yeah *yeah = state(sk);

	/* After idleness, and with nothing in flight, the path may have changed: forget its base. */
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		round_forget(&yeah->round);
	if (event == CA_EVENT_TX_START)
		round_begin(&yeah->round, tcp_sk(sk));
}

ENTRY1(u32, yeah_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)yeah_init,
	.pkts_acked = (void *)yeah_pkts_acked,
	.cong_avoid = (void *)yeah_cong_avoid,
	.ssthresh = (void *)yeah_ssthresh,
	.set_state = (void *)yeah_set_state,
	.cwnd_event = (void *)yeah_cwnd_event,
	.undo_cwnd = (void *)yeah_undo_cwnd,
	.name = NAME,
};
