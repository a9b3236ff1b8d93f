/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Vegas: keep between alpha and beta segments of one's own in the queue.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/vegas.rs, variant linux.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#ifndef ALPHA
#define ALPHA 2
#endif
#ifndef BETA
#define BETA 4
#endif
#ifndef GAMMA
#define GAMMA 1
#endif

struct vegas {
	struct round round;
	u32 diff;
	u8 active;
};
FITS(vegas);

INTERNALS
{
	const struct vegas *vegas = state(sk);

	SHOW(0, vegas->diff, 1);
	SHOW(1, vegas->round.base_us, 1000000);
}

ENTRY1(void, vegas_init, struct sock *, sk)
{
	struct vegas *vegas = state(sk);

	round_forget(&vegas->round);
	vegas->round.end = tcp_sk(sk)->snd_una;
	vegas->diff = 0;
	vegas->active = true;
}

ENTRY2(void, vegas_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct vegas *vegas = state(sk);

	round_sample(&vegas->round, sample->rtt_us);
}

/* Once a round trip. */
ALWAYS_INLINE void judge(struct vegas *vegas, struct tcp_sock *tp, u32 acked)
{
	u64 window = tp->snd_cwnd;
	u32 base = vegas->round.base_us, rtt = vegas->round.min_us;

	if (base == 0 || rtt == 0)
		return;
	u64 diff = window * (rtt - base) / base;

	vegas->diff = diff;
	if (in_slow_start(tp)) {
		if (diff > GAMMA) {
			/* Down to what the path holds, but one more. */
			u64 target = window * base / rtt;

			tp->snd_cwnd = least(tp->snd_cwnd, target + 1);
			tp->snd_ssthresh = least(tp->snd_ssthresh, tp->snd_cwnd);
		} else {
			slow_start(tp, acked);
		}
	} else if (diff > BETA) {
		tp->snd_cwnd = tp->snd_cwnd - 1;
		tp->snd_ssthresh = least(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (diff < ALPHA) {
		tp->snd_cwnd = tp->snd_cwnd + 1;
	}
	tp->snd_cwnd = least(landing(tp->snd_cwnd), tp->snd_cwnd_clamp);
	/* A window above ssthresh raises it to 3/4 of itself. */
	tp->snd_ssthresh = most(tp->snd_ssthresh, landing(tp->snd_cwnd / 2 + tp->snd_cwnd / 4));
}

ENTRY3(void, vegas_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *vegas = state(sk);

	if (!vegas->active) {
		if (is_limited_by_window(tp))
			reno(tp, acked);
		return;
	}
	if (!round_is_over(&vegas->round, tp)) {
		if (in_slow_start(tp))
			slow_start(tp, acked);
		return;
	}
	if (vegas->round.samples <= 2) {
		if (is_limited_by_window(tp))
			reno(tp, acked);
	} else {
		judge(vegas, tp, acked);
	}
	round_begin(&vegas->round, tp);
}

ENTRY1(u32, vegas_ssthresh, struct sock *, sk)
{
	tcp_sk(sk)->snd_cwnd_cnt = 0;
	return half(tcp_sk(sk));
}

ENTRY2(void, vegas_set_state, struct sock *, sk, u8, phase)
{
	struct vegas *vegas = state(sk);

	vegas->active = phase == OPEN;
	if (vegas->active)
		round_begin(&vegas->round, tcp_sk(sk));
}

ENTRY2(void, vegas_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct vegas *vegas = state(sk);

	/* After idleness, and with nothing in flight, the path may have changed: forget its base. */
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		round_forget(&vegas->round);
	if (event == CA_EVENT_TX_START) {
		round_begin(&vegas->round, tcp_sk(sk));
		vegas->active = true;
	}
}

ENTRY1(u32, vegas_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)vegas_init,
	.pkts_acked = (void *)vegas_pkts_acked,
	.cong_avoid = (void *)vegas_cong_avoid,
	.ssthresh = (void *)vegas_ssthresh,
	.set_state = (void *)vegas_set_state,
	.cwnd_event = (void *)vegas_cwnd_event,
	.undo_cwnd = (void *)vegas_undo_cwnd,
	.name = NAME,
};
