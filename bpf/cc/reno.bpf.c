/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reno: the window grows by one segment a round trip and halves on congestion.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/reno.rs, variant linux.
 *
 * The kernel has its own; this one is for comparing the two and for the differential test.
 */

ENTRY3(void, reno_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_limited_by_window(tp))
		reno(tp, acked);
}

ENTRY1(u32, reno_ssthresh, struct sock *, sk)
{
	tcp_sk(sk)->snd_cwnd_cnt = 0;
	return half(tcp_sk(sk));
}

ENTRY1(u32, reno_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.cong_avoid = (void *)reno_cong_avoid,
	.ssthresh = (void *)reno_ssthresh,
	.undo_cwnd = (void *)reno_undo_cwnd,
	.name = NAME,
};
