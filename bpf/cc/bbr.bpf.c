/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * BBR version 1: send at the measured bottleneck rate, with two empty-path windows in flight at most.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/bbr.rs.
 *
 * The kernel has its own; this one takes parameters, and is for comparing the two. It needs Linux 6.10, whose hook for the
 * whole window has four arguments.
 *
 * The kernel forces:
 * - More state than the socket has room for: it is in the socket's storage.
 * - Delivered data are counted in segments, so rates are in multiples of a segment; spans are in microseconds.
 */

#ifndef WINDOW_GAIN
#define WINDOW_GAIN 512u
#endif
#ifndef RTT_WINDOW_US
#define RTT_WINDOW_US 10000000u
#endif
#ifndef PROBE_RTT_US
#define PROBE_RTT_US 200000u
#endif
#ifndef POLICER_DETECTION
#define POLICER_DETECTION 1
#endif

/* Gains are in 1/256: 2/ln 2, and its inverse. */
#define ONE 256u
#define HIGH_GAIN 739u
#define DRAIN_GAIN 88u
#define ROUNDS 10u
#define MIN_WINDOW 4u
/* Startup ends when the rate has not grown by a quarter for three rounds. */
#define FULL_GROWTH 320u
#define FULL_ROUNDS 3
/* Pacing stays 1 % below the estimate. */
#define PACING_MARGIN 99u
/* ACK aggregation: rounds per slot of the filter, and the longest burst allowed for. */
#define EXTRA_ROUNDS 5
#define EXTRA_LIMIT_US 100000u
/* Policer detection: rounds an interval lasts at least and at most, and how long the result holds; an interval is lossy
 * above 50/256, and two rates agree within an eighth or 4 kbit/s. */
#define POLICER_LEAST 4u
#define POLICER_MOST 16u
#define POLICER_HOLD 48u
#define POLICER_LOSS 50u
#define POLICER_DIFFERENCE_BPS 4000u
/* Before any RTT the window is what connections begin with. */
#define INITIAL_WINDOW 10u
#define SECOND_US 1000000ull
#define MOST_BPS (1ull << 40)

enum { STARTUP = 0, DRAIN = 1, PROBE_BW = 2, PROBE_RTT = 3 };

struct maximum {
	u32 at;
	u64 value;
};

struct bbr {
	struct maximum best[3];
	u64 full_bandwidth;
	u64 rtt_at;
	u64 probe_rtt_until;
	u64 cycle_at;
	u64 epoch_at;
	u64 policer_at;
	u64 policer_bandwidth;
	u32 rtt_us;
	u32 rounds;
	u32 next_round;
	u32 prior_window;
	u32 extra[2];
	u32 epoch_acked;
	u32 policer_rounds;
	u32 policer_delivered;
	u32 policer_lost;
	u32 pacing_gain;
	u8 mode;
	u8 previous;
	u8 packet_conservation;
	u8 idle_restart;
	u8 has_seen_rtt;
	u8 round_start;
	u8 probe_rtt_round_done;
	u8 full;
	u8 full_rounds;
	u8 cycle;
	u8 extra_slot;
	u8 extra_rounds;
	u8 policer_sampling;
	u8 policer_in_use;
};

STORAGE(bbr);

INTERNALS
{
	const struct bbr *bbr = STORED(bbr, sk, 0);

	if (!bbr)
		return;
	SHOW(0, bbr->policer_in_use ? bbr->policer_bandwidth : bbr->best[0].value, 1);
	SHOW(1, bbr->rtt_us, SECOND_US);
	SHOW(2, bbr->mode, 1);
	SHOW(3, bbr->pacing_gain, ONE);
}

/* The largest value of the last rounds, from three samples: maximum.rs. */
ALWAYS_INLINE void enter(struct bbr *bbr, u64 value)
{
	struct maximum new = { .at = bbr->rounds, .value = value };
	struct maximum *best = bbr->best;

	if (value >= best[0].value || new.at - best[2].at > ROUNDS) {
		best[0] = best[1] = best[2] = new;
		return;
	}
	if (value >= best[1].value)
		best[1] = best[2] = new;
	else if (value >= best[2].value)
		best[2] = new;
	u32 age = new.at - best[0].at;

	if (age > ROUNDS) {
		best[0] = best[1];
		best[1] = best[2];
		best[2] = new;
		if (new.at - best[0].at > ROUNDS) {
			best[0] = best[1];
			best[1] = best[2];
			best[2] = new;
		}
	} else if (best[1].at == best[0].at && age > ROUNDS / 4) {
		best[1] = best[2] = new;
	} else if (best[2].at == best[1].at && age > ROUNDS / 2) {
		best[2] = new;
	}
}

ALWAYS_INLINE u64 estimate(const struct bbr *bbr)
{
	return bbr->policer_in_use ? bbr->policer_bandwidth : bbr->best[0].value;
}

/* Bits a second. */
ALWAYS_INLINE u64 rate_of(struct tcp_sock *tp, u64 segments, u64 us)
{
	return us ? segments * tp->mss_cache * 8 * SECOND_US / us : 0;
}

/* gain times the estimate, less the margin; never nothing. Bits a second. */
ALWAYS_INLINE u64 paced(u64 estimate_bps, u32 gain)
{
	u64 bps = (estimate_bps < MOST_BPS ? estimate_bps : MOST_BPS) * gain * PACING_MARGIN / (ONE * 100);

	return bps > 1000 ? bps : 1000;
}

ALWAYS_INLINE u32 flight(struct tcp_sock *tp)
{
	return tp->packets_out + tp->retrans_out - tp->sacked_out - tp->lost_out;
}

/* Empty-path windows times gain, in segments, rounded up. */
ALWAYS_INLINE u32 bdp(const struct bbr *bbr, struct tcp_sock *tp, u32 gain)
{
	if (bbr->rtt_us == 0)
		return INITIAL_WINDOW;
	u64 bits = estimate(bbr) * bbr->rtt_us;
	u64 of_segment = 8 * SECOND_US * ONE * most(tp->mss_cache, 1);
	u64 whole = bits / of_segment, rest = bits % of_segment;

	/* In two parts: the product with the gain would not fit. */
	return whole * gain + (rest * gain + of_segment - 1) / of_segment;
}

/* Segments handed to the card at once at this pacing rate: about a millisecond's worth. */
ALWAYS_INLINE u32 burst_segments(u64 pacing_bps, struct tcp_sock *tp)
{
	u64 bytes = (pacing_bps / 8) >> 10;
	/* 64 KiB less the room for headers. */
	u32 segments = (bytes < 65215 ? bytes : 65215) / most(tp->mss_cache, 1);

	return least(most(segments, pacing_bps < 1200000 ? 1 : 2), 127);
}

/* Room for three bursts, an even number, two more while probing. */
ALWAYS_INLINE u32 budget(const struct bbr *bbr, struct tcp_sock *tp, u32 window, u64 pacing_bps)
{
	window += 3 * burst_segments(pacing_bps, tp);
	window = (window + 1) & ~1u;
	return bbr->mode == PROBE_BW && bbr->cycle == 0 ? window + 2 : window;
}

ALWAYS_INLINE u64 pacing_bps(struct sock *sk)
{
	return sk->sk_pacing_rate * 8;
}

/* What gain times BDP allows in flight, with bursts as the pacing rate in force makes them. */
ALWAYS_INLINE u32 allowed(const struct bbr *bbr, struct sock *sk, u32 gain)
{
	return budget(bbr, tcp_sk(sk), bdp(bbr, tcp_sk(sk), gain), pacing_bps(sk));
}

ALWAYS_INLINE void pace(struct sock *sk, u64 bps)
{
	sk->sk_pacing_rate = bps / 8;
}

ALWAYS_INLINE void reset_policer(struct bbr *bbr)
{
	bbr->policer_sampling = false;
	bbr->policer_in_use = false;
	bbr->policer_rounds = 0;
	bbr->policer_bandwidth = 0;
	bbr->policer_delivered = 0;
	bbr->policer_lost = 0;
	bbr->policer_at = 0;
}

ALWAYS_INLINE void begin_policer(struct bbr *bbr, struct tcp_sock *tp)
{
	bbr->policer_rounds = 0;
	bbr->policer_delivered = tp->delivered;
	bbr->policer_lost = tp->lost;
	bbr->policer_at = tp->delivered_mstamp;
}

/* Any phase but the one below the estimate. */
ALWAYS_INLINE void begin_probe_bw(struct bbr *bbr, u64 now)
{
	u32 drawn = 7 - (u32)((u64)tailback_random() * 7 >> 32);

	bbr->mode = PROBE_BW;
	bbr->cycle = (drawn + 1) % 8;
	bbr->cycle_at = now;
}

/* A token bucket lets bursts through and then drops: two lossy intervals of one rate are one. */
ALWAYS_INLINE void sample_policer(struct bbr *bbr, struct tcp_sock *tp, bool is_lossy, bool is_app_limited)
{
	if (!POLICER_DETECTION)
		return;
	if (bbr->policer_in_use) {
		if (bbr->mode == PROBE_BW && bbr->round_start) {
			bbr->policer_rounds++;
			if (bbr->policer_rounds >= POLICER_HOLD) {
				reset_policer(bbr);
				begin_probe_bw(bbr, tp->delivered_mstamp);
			}
		}
		return;
	}
	if (!bbr->policer_sampling) {
		if (!is_lossy)
			return;
		begin_policer(bbr, tp);
		bbr->policer_sampling = true;
	}
	if (is_app_limited) {
		reset_policer(bbr);
		return;
	}
	bbr->policer_rounds += bbr->round_start;
	if (bbr->policer_rounds < POLICER_LEAST)
		return;
	if (bbr->policer_rounds > POLICER_MOST) {
		reset_policer(bbr);
		return;
	}
	u32 delivered = tp->delivered - bbr->policer_delivered, lost = tp->lost - bbr->policer_lost;

	if (!is_lossy || delivered == 0 || (u64)lost * 256 < (u64)POLICER_LOSS * delivered)
		return;
	u64 span = tp->delivered_mstamp - bbr->policer_at;

	if (span < 1000)
		return;
	u64 bandwidth = rate_of(tp, delivered, span), before = bbr->policer_bandwidth;
	u64 difference = bandwidth > before ? bandwidth - before : before - bandwidth;

	if (before > 0 && (difference * 8 <= before || difference <= POLICER_DIFFERENCE_BPS)) {
		bbr->policer_bandwidth = (bandwidth + before) / 2;
		bbr->policer_in_use = true;
		bbr->policer_rounds = 0;
		return;
	}
	bbr->policer_bandwidth = bandwidth;
	begin_policer(bbr, tp);
}

ALWAYS_INLINE void measure_bandwidth(struct bbr *bbr, struct tcp_sock *tp, const struct rate_sample *rs)
{
	bbr->round_start = false;
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	if ((s32)(rs->prior_delivered - bbr->next_round) >= 0) {
		bbr->next_round = tp->delivered;
		bbr->rounds++;
		bbr->round_start = true;
		bbr->packet_conservation = false;
	}
	sample_policer(bbr, tp, rs->losses > 0, rs->is_app_limited);
	u64 bps = rate_of(tp, rs->delivered, rs->interval_us);

	if (!rs->is_app_limited || bps >= bbr->best[0].value)
		enter(bbr, bps);
}

/* How much more than expected arrives at once: the window must cover it. */
ALWAYS_INLINE void measure_aggregation(struct bbr *bbr, struct tcp_sock *tp, const struct rate_sample *rs, u64 now)
{
	if (rs->acked_sacked == 0 || rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	if (bbr->round_start) {
		bbr->extra_rounds++;
		if (bbr->extra_rounds >= EXTRA_ROUNDS) {
			bbr->extra_rounds = 0;
			bbr->extra_slot = !bbr->extra_slot;
			bbr->extra[bbr->extra_slot & 1] = 0;
		}
	}
	u64 span = now - bbr->epoch_at;
	u64 expected = estimate(bbr) * span / (8 * SECOND_US) / most(tp->mss_cache, 1);

	if (bbr->epoch_acked <= expected || bbr->epoch_acked + rs->acked_sacked >= 1u << 20) {
		bbr->epoch_acked = 0;
		bbr->epoch_at = now;
		expected = 0;
	}
	bbr->epoch_acked += rs->acked_sacked;
	u32 beyond = bbr->epoch_acked > expected ? bbr->epoch_acked - expected : 0;
	u32 *slot = &bbr->extra[bbr->extra_slot & 1];

	*slot = most(*slot, least(beyond, tp->snd_cwnd));
}

ALWAYS_INLINE u32 cycle_gain(const struct bbr *bbr)
{
	if (bbr->policer_in_use)
		return ONE;
	return bbr->cycle == 0 ? 320 : bbr->cycle == 1 ? 192 : ONE;
}

/* What will be in the network when pacing lets the next segment leave: what is delivered until then has left, and
 * while the gain is above one the next burst counts. */
ALWAYS_INLINE u32 in_network(const struct bbr *bbr, struct sock *sk, u32 in_flight)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now_ns = tp->tcp_clock_cache, departs_ns = tp->tcp_wstamp_ns;
	u64 wait_us = departs_ns > now_ns ? (departs_ns - now_ns) / 1000 : 0;
	u32 delivered = estimate(bbr) * wait_us / (8 * SECOND_US) / most(tp->mss_cache, 1);

	if (bbr->pacing_gain > ONE)
		in_flight += burst_segments(pacing_bps(sk), tp);
	return in_flight > delivered ? in_flight - delivered : 0;
}

ALWAYS_INLINE void advance_cycle(struct bbr *bbr, struct sock *sk, const struct rate_sample *rs, u64 now)
{
	if (bbr->mode != PROBE_BW)
		return;
	u32 gain = cycle_gain(bbr), out = in_network(bbr, sk, rs->prior_in_flight);
	bool is_over = now - bbr->cycle_at > bbr->rtt_us;

	if (gain > ONE)
		is_over = is_over && (rs->losses > 0 || out >= allowed(bbr, sk, gain));
	else if (gain < ONE)
		is_over = is_over || out <= allowed(bbr, sk, ONE);
	if (is_over) {
		bbr->cycle = (bbr->cycle + 1) % 8;
		bbr->cycle_at = now;
	}
}

ALWAYS_INLINE void check_full(struct bbr *bbr, const struct rate_sample *rs)
{
	if (bbr->full || !bbr->round_start || rs->is_app_limited)
		return;
	if (bbr->best[0].value >= bbr->full_bandwidth * FULL_GROWTH / ONE) {
		bbr->full_bandwidth = bbr->best[0].value;
		bbr->full_rounds = 0;
		return;
	}
	bbr->full_rounds++;
	bbr->full = bbr->full_rounds >= FULL_ROUNDS;
}

ALWAYS_INLINE void check_drain(struct bbr *bbr, struct sock *sk, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (bbr->mode == STARTUP && bbr->full) {
		bbr->mode = DRAIN;
		tp->snd_ssthresh = most(allowed(bbr, sk, ONE), 2);
	}
	if (bbr->mode == DRAIN && in_network(bbr, sk, flight(tp)) <= allowed(bbr, sk, ONE))
		begin_probe_bw(bbr, now);
}

ALWAYS_INLINE void save_window(struct bbr *bbr, struct tcp_sock *tp)
{
	bool is_clean = bbr->previous < RECOVERY && bbr->mode != PROBE_RTT;

	bbr->prior_window = is_clean ? tp->snd_cwnd : most(bbr->prior_window, tp->snd_cwnd);
}

/* If its time is over. */
ALWAYS_INLINE void end_probe_rtt(struct bbr *bbr, struct tcp_sock *tp, u64 now)
{
	if (bbr->probe_rtt_until == 0 || now <= bbr->probe_rtt_until)
		return;
	bbr->rtt_at = now;
	tp->snd_cwnd = most(tp->snd_cwnd, bbr->prior_window);
	if (bbr->full)
		begin_probe_bw(bbr, now);
	else
		bbr->mode = STARTUP;
}

ALWAYS_INLINE void probe_rtt(struct bbr *bbr, struct tcp_sock *tp, u64 now)
{
	/* What four segments a round trip deliver says nothing of the path. */
	tp->app_limited = most(tp->delivered + flight(tp), 1);
	if (bbr->probe_rtt_until == 0) {
		if (flight(tp) <= MIN_WINDOW) {
			bbr->probe_rtt_until = now + PROBE_RTT_US;
			bbr->probe_rtt_round_done = false;
			bbr->next_round = tp->delivered;
		}
		return;
	}
	if (bbr->round_start)
		bbr->probe_rtt_round_done = true;
	if (bbr->probe_rtt_round_done)
		end_probe_rtt(bbr, tp, now);
}

ALWAYS_INLINE void measure_rtt(struct bbr *bbr, struct tcp_sock *tp, const struct rate_sample *rs, u64 now)
{
	bool expired = now - bbr->rtt_at > RTT_WINDOW_US;

	if (rs->rtt_us >= 0) {
		u32 rtt = most(rs->rtt_us, 1);

		if (bbr->rtt_us == 0 || rtt < bbr->rtt_us || (expired && !rs->is_ack_delayed)) {
			bbr->rtt_us = rtt;
			bbr->rtt_at = now;
		}
	}
	if (expired && !bbr->idle_restart && bbr->mode != PROBE_RTT) {
		bbr->mode = PROBE_RTT;
		save_window(bbr, tp);
		bbr->probe_rtt_until = 0;
	}
	if (bbr->mode == PROBE_RTT)
		probe_rtt(bbr, tp, now);
	if (rs->acked_sacked > 0)
		bbr->idle_restart = false;
}

/* The pacing gain of the mode; returns that of the window. */
ALWAYS_INLINE u32 set_gains(struct bbr *bbr)
{
	switch (bbr->mode) {
	case STARTUP:
		bbr->pacing_gain = HIGH_GAIN;
		return HIGH_GAIN;
	case DRAIN:
		bbr->pacing_gain = DRAIN_GAIN;
		return HIGH_GAIN;
	case PROBE_BW:
		bbr->pacing_gain = cycle_gain(bbr);
		return WINDOW_GAIN;
	default:
		bbr->pacing_gain = ONE;
		return ONE;
	}
}

ALWAYS_INLINE void set_pacing(struct bbr *bbr, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!bbr->has_seen_rtt && tp->srtt_us > 0) {
		bbr->has_seen_rtt = true;
		pace(sk, paced(rate_of(tp, tp->snd_cwnd, tp->srtt_us / 8), HIGH_GAIN));
	}
	u64 bps = paced(estimate(bbr), bbr->pacing_gain);

	/* Until the pipe is full, a slower sample does not slow Startup down. */
	if (bbr->full || bps > pacing_bps(sk))
		pace(sk, bps);
}

/* In the first round of recovery one segment leaves for each delivered; afterwards the old window returns. */
ALWAYS_INLINE bool recover_or_restore(struct bbr *bbr, struct tcp_sock *tp, const struct rate_sample *rs, u32 *window)
{
	u8 phase = BITS(tp, inet_conn.icsk_ca_state);
	u32 conserved = flight(tp) + rs->acked_sacked;
	u32 losses = rs->losses > 0 ? rs->losses : 0;

	*window = most(*window > losses ? *window - losses : 0, 1);
	if (phase == RECOVERY && bbr->previous != RECOVERY) {
		bbr->packet_conservation = true;
		bbr->next_round = tp->delivered;
		*window = conserved;
	} else if (bbr->previous >= RECOVERY && phase < RECOVERY) {
		*window = most(*window, bbr->prior_window);
		bbr->packet_conservation = false;
	}
	bbr->previous = phase;
	if (bbr->packet_conservation)
		*window = most(*window, conserved);
	return bbr->packet_conservation;
}

ALWAYS_INLINE void set_window(struct bbr *bbr, struct sock *sk, const struct rate_sample *rs, u32 gain)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = tp->snd_cwnd, acked = rs->acked_sacked;

	if (acked > 0 && !recover_or_restore(bbr, tp, rs, &window)) {
		u32 target = bdp(bbr, tp, gain);

		if (bbr->full) {
			u64 burst = estimate(bbr) * EXTRA_LIMIT_US / (8 * SECOND_US) / most(tp->mss_cache, 1);

			target += least(most(bbr->extra[0], bbr->extra[1]), burst < 0xffffffff ? burst : 0xffffffff);
		}
		target = budget(bbr, tp, target, pacing_bps(sk));
		if (bbr->full)
			window = least(window + acked, target);
		else if (window < target || tp->delivered < INITIAL_WINDOW)
			window += acked;
		window = most(window, MIN_WINDOW);
	} else if (acked > 0) {
		/* One leaves for each delivered. */
		window = most(window, 1);
	}
	if (bbr->mode == PROBE_RTT)
		window = least(window, MIN_WINDOW);
	tp->snd_cwnd = least(most(window, 1), tp->snd_cwnd_clamp);
}

ENTRY1(void, bbr_init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = STORED(bbr, sk, 1);
	u64 now = now_us(tp);

	if (!bbr)
		return;
	__builtin_memset(bbr, 0, sizeof(*bbr));
	bbr->next_round = tp->delivered;
	bbr->pacing_gain = HIGH_GAIN;
	bbr->rtt_at = now;
	bbr->cycle_at = now;
	bbr->epoch_at = now;
	/* Before any sample: the initial window in the handshake's RTT, or in a millisecond. */
	u32 rtt = tp->srtt_us / 8;

	if (rtt > 0) {
		bbr->rtt_us = rtt;
		bbr->has_seen_rtt = true;
	}
	pace(sk, paced(rate_of(tp, tp->snd_cwnd, rtt ? rtt : 1000), HIGH_GAIN));
	sk->sk_pacing_status = PACING_NEEDED;
}

ENTRY4(void, bbr_cong_control, struct sock *, sk, u32, ack, int, flag, const struct rate_sample *, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = STORED(bbr, sk, 0);
	u64 now = now_us(tp);

	if (!bbr)
		return;
	measure_bandwidth(bbr, tp, rs);
	measure_aggregation(bbr, tp, rs, now);
	advance_cycle(bbr, sk, rs, now);
	check_full(bbr, rs);
	check_drain(bbr, sk, now);
	measure_rtt(bbr, tp, rs, now);
	u32 gain = set_gains(bbr);

	set_pacing(bbr, sk);
	set_window(bbr, sk, rs, gain);
}

ENTRY1(u32, bbr_ssthresh, struct sock *, sk)
{
	struct bbr *bbr = STORED(bbr, sk, 0);

	if (bbr)
		save_window(bbr, tcp_sk(sk));
	return tcp_sk(sk)->snd_ssthresh;
}

ENTRY2(void, bbr_set_state, struct sock *, sk, u8, phase)
{
	struct bbr *bbr = STORED(bbr, sk, 0);

	if (!bbr || phase != LOSS)
		return;
	bbr->previous = LOSS;
	bbr->full_bandwidth = 0;
	bbr->round_start = true;
	/* A timeout is a loss, and may begin or end an interval. */
	sample_policer(bbr, tcp_sk(sk), true, false);
}

ENTRY2(void, bbr_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct bbr *bbr = STORED(bbr, sk, 0);

	if (!bbr || event != CA_EVENT_TX_START || !tcp_sk(sk)->app_limited)
		return;
	bbr->idle_restart = true;
	bbr->epoch_at = now_us(tcp_sk(sk));
	bbr->epoch_acked = 0;
	/* No burst above the estimate after a pause, which may have been the probe. */
	if (bbr->mode == PROBE_BW)
		pace(sk, paced(estimate(bbr), ONE));
	else if (bbr->mode == PROBE_RTT)
		end_probe_rtt(bbr, tcp_sk(sk), bbr->epoch_at);
}

ENTRY1(u32, bbr_undo_cwnd, struct sock *, sk)
{
	struct bbr *bbr = STORED(bbr, sk, 0);

	if (bbr) {
		bbr->full_bandwidth = 0;
		bbr->full_rounds = 0;
		reset_policer(bbr);
	}
	return tcp_sk(sk)->snd_cwnd;
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)bbr_init,
	.cong_control = (void *)bbr_cong_control,
	.ssthresh = (void *)bbr_ssthresh,
	.set_state = (void *)bbr_set_state,
	.cwnd_event = (void *)bbr_cwnd_event,
	.undo_cwnd = (void *)bbr_undo_cwnd,
	.name = NAME,
};
