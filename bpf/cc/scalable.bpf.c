/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scalable TCP: every ACK raises the window by the same amount, so recovery time does not depend on the rate.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/scalable.rs, variant linux.
 *
 * The kernel forces: nothing beyond parts.h.
 */

#ifndef INTERVAL
#define INTERVAL 100u
#endif

ENTRY3(void, scalable_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp)) {
		acked = slow_start(tp, acked);
		if (acked == 0)
			return;
	}
	additive(tp, least(tp->snd_cwnd, INTERVAL), acked);
}

ENTRY1(u32, scalable_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd_cnt = 0;
	return landing(tp->snd_cwnd - tp->snd_cwnd / 8);
}

ENTRY1(u32, scalable_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.cong_avoid = (void *)scalable_cong_avoid,
	.ssthresh = (void *)scalable_ssthresh,
	.undo_cwnd = (void *)scalable_undo_cwnd,
	.name = NAME,
};
