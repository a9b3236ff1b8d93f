/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Westwood+: after a loss the window becomes what the path delivered, times its empty RTT.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/westwood.rs.
 *
 * The kernel forces:
 * - The ACK hook also sees ACKs that acknowledge nothing, so bytes are counted there, RTTs at the sample's hook.
 */

#define INITIAL_RTT_S 20u
#define SAMPLES_A_SECOND 20u

struct westwood {
	u32 once;
	u32 twice;
	u32 window_start;
	u32 acked;
	u32 accounted;
	u32 snd_una;
	u32 rtt;
	u32 rtt_min;
	u8 remeasure;
	u8 counts;
};
FITS(westwood);

INTERNALS
{
	const struct westwood *westwood = state(sk);

	SHOW(0, (u64)westwood->twice * 8 * HZ, 1);
	SHOW(1, westwood->rtt_min, HZ);
}

ENTRY1(void, westwood_init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *westwood = state(sk);

	westwood->once = 0;
	westwood->twice = 0;
	westwood->window_start = ticks_at(now_us(tp));
	westwood->acked = 0;
	westwood->accounted = 0;
	westwood->snd_una = tp->snd_una;
	westwood->rtt = INITIAL_RTT_S * HZ;
	westwood->rtt_min = INITIAL_RTT_S * HZ;
	westwood->remeasure = false;
	westwood->counts = false;
}

ENTRY2(void, westwood_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct westwood *westwood = state(sk);

	if (sample->rtt_us >= 0)
		westwood->rtt = most(ticks_span(sample->rtt_us), 1);
}

ALWAYS_INLINE u32 smooth(u32 old, u32 new)
{
	return ((u64)7 * old + new) / 8;
}

ALWAYS_INLINE void close_window(struct westwood *westwood, u32 now)
{
	u32 elapsed = now - westwood->window_start;

	if (elapsed <= most(westwood->rtt, HZ / SAMPLES_A_SECOND) || elapsed == 0)
		return;
	u32 sample = westwood->acked / elapsed;

	if (westwood->once == 0 && westwood->twice == 0) {
		westwood->once = sample;
		westwood->twice = sample;
	} else {
		westwood->once = smooth(westwood->once, sample);
		westwood->twice = smooth(westwood->twice, westwood->once);
	}
	westwood->acked = 0;
	westwood->window_start = now;
}

/* A duplicate is worth a segment, which is taken off the cumulative ACK that covers it. The first ACK of all counts as one. */
ALWAYS_INLINE u32 count(struct westwood *westwood, struct tcp_sock *tp)
{
	u32 mss = tp->mss_cache;
	u32 covered = westwood->counts ? tp->snd_una - westwood->snd_una : 0;

	westwood->counts = true;
	westwood->snd_una = tp->snd_una;
	if (covered == 0) {
		westwood->accounted += mss;
		return mss;
	}
	if (covered <= mss)
		return covered;
	if (westwood->accounted >= covered) {
		westwood->accounted -= covered;
		return mss;
	}
	covered -= westwood->accounted;
	westwood->accounted = 0;
	return covered;
}

ENTRY2(void, westwood_in_ack_event, struct sock *, sk, u32, flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *westwood = state(sk);

	close_window(westwood, ticks_at(now_us(tp)));
	westwood->acked += count(westwood, tp);
	if (westwood->remeasure) {
		westwood->rtt_min = westwood->rtt;
		westwood->remeasure = false;
	}
	westwood->rtt_min = least(westwood->rtt_min, westwood->rtt);
}

ENTRY3(void, westwood_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_limited_by_window(tp))
		reno(tp, acked);
}

ALWAYS_INLINE u32 estimate(struct westwood *westwood, struct tcp_sock *tp)
{
	u32 mss = tp->mss_cache;

	return landing(mss ? (u64)westwood->twice * westwood->rtt_min / mss : 0);
}

ENTRY1(u32, westwood_ssthresh, struct sock *, sk)
{
	tcp_sk(sk)->snd_cwnd_cnt = 0;
	return half(tcp_sk(sk));
}

ENTRY2(void, westwood_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *westwood = state(sk);

	if (event == CA_EVENT_COMPLETE_CWR) {
		tp->snd_ssthresh = estimate(westwood, tp);
		tp->snd_cwnd = tp->snd_ssthresh;
	}
	if (event == CA_EVENT_LOSS) {
		tp->snd_ssthresh = estimate(westwood, tp);
		westwood->remeasure = true;
	}
}

ENTRY1(u32, westwood_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)westwood_init,
	.pkts_acked = (void *)westwood_pkts_acked,
	.in_ack_event = (void *)westwood_in_ack_event,
	.cwnd_event = (void *)westwood_cwnd_event,
	.cong_avoid = (void *)westwood_cong_avoid,
	.ssthresh = (void *)westwood_ssthresh,
	.undo_cwnd = (void *)westwood_undo_cwnd,
	.name = NAME,
};
