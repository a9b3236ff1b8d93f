/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compound TCP: Reno's window plus a delay window that fills an empty path fast and retreats from a queue.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/compound.rs, variant paper.
 *
 * The kernel forces:
 * - Fractions are in 2^-24 of a segment, windows above 32767 segments count as that, and RTTs above 16 s; win^k only for
 *   k = 3/4, as two square roots of win cubed; alpha is 1/8, beta 1/2, zeta 1.
 * - A timeout is known only after ssthresh was asked for: dwnd is cleared on entering the Loss state.
 */

#define ONE (1ll << 24)
#ifndef GAMMA
#define GAMMA 30
#endif
#ifndef LOW_WINDOW
#define LOW_WINDOW 41
#endif
/* Above these, win cubed, and win itself, would not fit beside their fixed points. */
#define LARGEST_CUBED 8191u
#define LARGEST 32767u
#define LONGEST_US ((1u << 24) - 1)

struct compound {
	struct round round;
	/* The delay window, and what is kept back until it makes a segment. */
	s64 dwnd;
	s64 held;
	u64 backlog;
};
FITS(compound);

INTERNALS
{
	const struct compound *compound = state(sk);

	SHOW(0, compound->dwnd, ONE);
	SHOW(1, compound->backlog, ONE);
	SHOW(2, GAMMA, 1);
}

ENTRY1(void, compound_init, struct sock *, sk)
{
	struct compound *compound = state(sk);

	round_forget(&compound->round);
	compound->round.end = tcp_sk(sk)->snd_una;
	compound->dwnd = 0;
	compound->held = 0;
	compound->backlog = 0;
}

ENTRY2(void, compound_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct compound *compound = state(sk);

	round_sample(&compound->round, sample->rtt_us);
}

/* Move the window by a fraction: whole segments now, the rest later. */
ALWAYS_INLINE void add(struct compound *compound, struct tcp_sock *tp, s64 fraction, u32 floor)
{
	s64 held = compound->held + fraction;

	if (held >= ONE) {
		u32 steps = (u64)held / ONE;

		held -= steps * ONE;
		tp->snd_cwnd = least(tp->snd_cwnd + steps, tp->snd_cwnd_clamp);
	} else if (held <= -ONE) {
		u32 steps = (u64)-held / ONE;
		u32 window = tp->snd_cwnd;

		held += steps * ONE;
		tp->snd_cwnd = most(window > steps ? window - steps : 0, floor);
	}
	compound->held = held;
}

/* Newton's square root, with as many steps as the largest and the smallest argument need: no branch that depends on
 * the argument, or the verifier would follow every one. */
ALWAYS_INLINE u64 root(u64 of)
{
	u64 guess = (u64)1 << 32;

	for (int round = 0; round < 40; round++)
		guess = (guess + of / guess) / 2;
	return guess * guess > of ? guess - 1 : guess;
}

/* alpha win^k. */
ALWAYS_INLINE s64 step(u32 window)
{
	u64 win = least(window, LARGEST_CUBED);

	/* 2^12 win^(3/2), and of that times 2^32 the root, 2^22 win^(3/4); an eighth of win^(3/4) in 2^-24 is half of it. */
	return root(root((win * win * win) << 24) << 32) / 2;
}

/* Once a round trip: grow or retreat the delay window. */
ALWAYS_INLINE void judge(struct compound *compound, struct tcp_sock *tp, bool may_grow)
{
	u32 window = least(tp->snd_cwnd, LARGEST);
	u32 rtt = least(most(compound->round.min_us, 1), LONGEST_US), base = least(compound->round.base_us, rtt);
	s64 most_of_it = (window - 1) * ONE;
	s64 before = compound->dwnd < most_of_it ? compound->dwnd : most_of_it;
	s64 after = before;

	if (before < 0)
		before = after = 0;
	compound->backlog = (u64)window * ONE * (rtt - base) / rtt;
	if (compound->backlog >= GAMMA * ONE) {
		after = before - (s64)compound->backlog;
		if (after < 0)
			after = 0;
	} else if (may_grow && window >= LOW_WINDOW) {
		s64 growth = step(window) - ONE;

		after = before + (growth > 0 ? growth : 0);
	}
	compound->dwnd = after;
	add(compound, tp, after - before, FLOOR);
}

ENTRY3(void, compound_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *compound = state(sk);
	bool started = in_slow_start(tp);
	bool may_grow = is_limited_by_window(tp);

	if (may_grow) {
		if (started) {
			slow_start(tp, acked);
		} else {
			u32 window = most(least(tp->snd_cwnd, LARGEST), 1);
			s64 most_of_it = (window - 1) * ONE;

			if (compound->dwnd > most_of_it)
				compound->dwnd = most_of_it;
			/* To the nearest: what is always cut would be missing in the end. */
			add(compound, tp, (least(acked, LARGEST) * (u64)ONE + window / 2) / window, 1);
		}
	}
	if (round_is_over(&compound->round, tp)) {
		if (compound->round.samples > 2 && !started)
			judge(compound, tp, may_grow);
		round_begin(&compound->round, tp);
	}
}

ENTRY1(u32, compound_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *compound = state(sk);
	s64 win = least(tp->snd_cwnd, LARGEST) * ONE;
	s64 kept = (u64)win / 2;
	s64 dwnd = compound->dwnd < win ? compound->dwnd : win;
	s64 loss_window = win - dwnd;

	tp->snd_cwnd_cnt = 0;
	compound->held = 0;
	dwnd = kept - (s64)((u64)loss_window / 2);
	compound->dwnd = dwnd > 0 ? dwnd : 0;
	return landing((u64)kept / ONE);
}

ENTRY2(void, compound_set_state, struct sock *, sk, u8, phase)
{
	struct compound *compound = state(sk);

	if (phase == LOSS)
		compound->dwnd = 0;
}

ENTRY2(void, compound_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct compound *compound = state(sk);

	if (event == CA_EVENT_CWND_RESTART)
		round_forget(&compound->round);
}

ENTRY1(u32, compound_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)compound_init,
	.pkts_acked = (void *)compound_pkts_acked,
	.cong_avoid = (void *)compound_cong_avoid,
	.ssthresh = (void *)compound_ssthresh,
	.set_state = (void *)compound_set_state,
	.cwnd_event = (void *)compound_cwnd_event,
	.undo_cwnd = (void *)compound_undo_cwnd,
	.name = NAME,
};
