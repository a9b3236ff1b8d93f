/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Veno: Reno that distinguishes random loss from congestion by its own backlog in the queue.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/veno.rs.
 *
 * The kernel forces: nothing beyond parts.h.
 */

/* In half segments. */
#ifndef BETA
#define BETA 6
#endif

struct veno {
	struct round round;
	u32 diff;
	u8 active;
	u8 raises;
};
FITS(veno);

INTERNALS
{
	const struct veno *veno = state(sk);

	SHOW(0, veno->diff, 2);
	SHOW(1, veno->round.base_us, 1000000);
}

ENTRY1(void, veno_init, struct sock *, sk)
{
	struct veno *veno = state(sk);

	round_forget(&veno->round);
	veno->diff = 0;
	veno->active = true;
	veno->raises = true;
}

ENTRY2(void, veno_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct veno *veno = state(sk);

	round_sample(&veno->round, sample->rtt_us);
}

ALWAYS_INLINE void judge(struct veno *veno, struct tcp_sock *tp, u32 acked)
{
	u64 doubled = (u64)2 * tp->snd_cwnd;

	/* Without a sample the RTT is endless. */
	veno->diff = doubled - doubled * veno->round.base_us / most(veno->round.min_us, 1);
	if (in_slow_start(tp)) {
		acked = slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	if (veno->diff < BETA) {
		additive(tp, tp->snd_cwnd, acked);
		return;
	}
	/* Congestive: every second window of ACKs raises it. */
	if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		if (veno->raises)
			tp->snd_cwnd = least(tp->snd_cwnd + 1, tp->snd_cwnd_clamp);
		veno->raises = !veno->raises;
		tp->snd_cwnd_cnt = 0;
	} else {
		tp->snd_cwnd_cnt += acked;
	}
}

ENTRY3(void, veno_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct veno *veno = state(sk);

	if (!is_limited_by_window(tp))
		return;
	if (!veno->active) {
		reno(tp, acked);
		return;
	}
	if (veno->round.samples <= 2)
		reno(tp, acked);
	else
		judge(veno, tp, acked);
	/* Only the RTT is forgotten, never the count of samples. */
	veno->round.min_us = NONE_US;
}

ENTRY1(u32, veno_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct veno *veno = state(sk);

	tp->snd_cwnd_cnt = 0;
	return landing(veno->diff < BETA ? tp->snd_cwnd * 4 / 5 : tp->snd_cwnd / 2);
}

ENTRY2(void, veno_set_state, struct sock *, sk, u8, phase)
{
	struct veno *veno = state(sk);

	veno->active = phase == OPEN;
	if (veno->active)
		veno->round.min_us = NONE_US;
}

ENTRY2(void, veno_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct veno *veno = state(sk);

	u32 samples = veno->round.samples;

	if (event != CA_EVENT_CWND_RESTART && event != CA_EVENT_TX_START)
		return;
	round_forget(&veno->round);
	/* The count of samples stays. */
	veno->round.samples = samples;
	veno->raises = true;
	veno->active = true;
}

ENTRY1(u32, veno_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)veno_init,
	.pkts_acked = (void *)veno_pkts_acked,
	.cong_avoid = (void *)veno_cong_avoid,
	.ssthresh = (void *)veno_ssthresh,
	.set_state = (void *)veno_set_state,
	.cwnd_event = (void *)veno_cwnd_event,
	.undo_cwnd = (void *)veno_undo_cwnd,
	.name = NAME,
};
