/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hybla: a long path grows as fast, in segments a second, as a reference path of 25 ms would.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/hybla.rs, variant linux.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#ifndef RTT0_US
#define RTT0_US 25000u
#endif
#define ONE 128u
#define CLAMP 65535u

struct hybla {
	u32 rho_8;
	u32 rtt_min_us;
	u32 cents;
	u32 credit;
	u8 active;
};
FITS(hybla);

INTERNALS
{
	const struct hybla *hybla = state(sk);

	SHOW(0, hybla->rho_8, 8);
}

ALWAYS_INLINE void measure(struct hybla *hybla, u32 srtt_us)
{
	hybla->rho_8 = most((u64)srtt_us * 8 / RTT0_US, 8);
	hybla->rtt_min_us = srtt_us;
}

ENTRY1(void, hybla_init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *hybla = state(sk);

	hybla->rho_8 = 8;
	/* Without the handshake's sample nothing is ever smaller, and rho stays 1, as in the kernel's own. */
	hybla->rtt_min_us = 0;
	hybla->cents = 0;
	hybla->credit = 0;
	hybla->active = true;
	/* The kernel keeps the smoothed RTT in eighths. */
	if (tp->srtt_us > 0)
		measure(hybla, most(tp->srtt_us / 8, 1));
	tp->snd_cwnd = hybla->rho_8 / 8;
}

/* 2^(i/8) in 1/128. */
ALWAYS_INLINE u32 power(u32 eighths)
{
	switch (eighths) {
	case 0:
		return 128;
	case 1:
		return 139;
	case 2:
		return 152;
	case 3:
		return 165;
	case 4:
		return 181;
	case 5:
		return 197;
	case 6:
		return 215;
	default:
		return 234;
	}
}

ENTRY3(void, hybla_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *hybla = state(sk);
	u32 srtt_us = most(tp->srtt_us / 8, 1);

	if (tp->srtt_us > 0 && srtt_us < hybla->rtt_min_us)
		measure(hybla, srtt_us);
	if (!is_limited_by_window(tp))
		return;
	if (!hybla->active) {
		reno(tp, acked);
		return;
	}
	u32 window = tp->snd_cwnd;
	bool starting = in_slow_start(tp);
	u32 rho = hybla->rho_8;
	/* rho^2 in 1/128 is twice rho^2 in 1/64. */
	u32 increment = starting ? (power(rho % 8) << least(rho / 8, 16)) - ONE
				 : (u32)((u64)2 * rho * rho / most(window, 1));

	if (!starting && increment < ONE)
		hybla->credit++;
	u32 steps = increment / ONE;

	hybla->cents += increment % ONE;
	if (hybla->cents >= ONE) {
		hybla->cents -= ONE;
		hybla->credit = 0;
		steps++;
	}
	if (increment == 0 && hybla->credit >= window) {
		hybla->credit = 0;
		steps++;
	}
	u32 limit = starting ? least(tp->snd_ssthresh, CLAMP) : CLAMP;
	tp->snd_cwnd = least(window + steps, least(limit, tp->snd_cwnd_clamp));
}

ENTRY1(u32, hybla_ssthresh, struct sock *, sk)
{
	struct hybla *hybla = state(sk);

	tcp_sk(sk)->snd_cwnd_cnt = 0;
	hybla->credit = 0;
	return half(tcp_sk(sk));
}

ENTRY2(void, hybla_set_state, struct sock *, sk, u8, phase)
{
	struct hybla *hybla = state(sk);

	hybla->active = phase == OPEN;
}

ENTRY1(u32, hybla_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)hybla_init,
	.cong_avoid = (void *)hybla_cong_avoid,
	.ssthresh = (void *)hybla_ssthresh,
	.set_state = (void *)hybla_set_state,
	.undo_cwnd = (void *)hybla_undo_cwnd,
	.name = NAME,
};
