/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CDG: back off, with a probability, when the RTT rises from one round trip to the next.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/cdg.rs, variant linux.
 *
 * The kernel forces:
 * - A BPF program cannot enter the CWR state, so the twin brings the window down itself, over a round trip and in
 *   proportion to what is delivered (RFC 6937), and the state log shows no congestion event for it.
 * - The state is larger than the socket's allowance and lies in the socket's BPF storage.
 * - The exponential is (1 - x/65536)^65536. Loss tolerance is off, as in the twin's default.
 */

#define WINDOW 8
#define EFFECT_US 32
#define TRAIN_GAP_US 3000u
#define HYSTART_FLOOR_US 125u
#define DELACKS 5
/* In 1/1024. */
#define BACKOFF_BETA 724u
#define INEFFECTUAL 5
/* G summed over the window, in microseconds: 8 * 1000000/(42 * 8). */
#define SCALE_US 23810u

struct minmax_us {
	s32 min;
	s32 max;
};

struct cdg {
	struct minmax_us round;
	struct minmax_us before;
	struct minmax_us sum;
	struct minmax_us ring[WINDOW];
	u32 end;
	u32 rests_until;
	u32 rest_window;
	u32 rest_delivered;
	u32 shadow;
	u32 delay_min;
	u32 last_ack;
	u32 round_start;
	u32 ineffectual;
	u8 tail;
	u8 doubted;
	u8 samples;
	u8 filled;
	u8 rests;
	/* It backed off while a timeout was being repaired: the next loss costs as little as that. */
	u8 backed;
};

STORAGE(cdg);
#define CDG(sk, create) STORED(cdg, sk, create)

INTERNALS
{
	const struct cdg *cdg = CDG(sk, 0);

	if (!cdg)
		return;
	SHOW(0, cdg->sum.min, 1000 * WINDOW);
	SHOW(1, cdg->sum.max, 1000 * WINDOW);
	SHOW(2, cdg->shadow, 1);
	SHOW(3, cdg->ineffectual, 1);
}

#define NOW_US(tp) ((u32)now_us(tp))

ALWAYS_INLINE void forget(struct cdg *cdg, u32 window)
{
	for (int i = 0; i < WINDOW; i++)
		cdg->ring[i].min = cdg->ring[i].max = 0;
	cdg->sum.min = cdg->sum.max = 0;
	cdg->round.min = cdg->round.max = 0;
	cdg->before.min = cdg->before.max = 0;
	cdg->filled = false;
	cdg->tail = 0;
	cdg->delay_min = 0;
	cdg->ineffectual = 0;
	cdg->doubted = 0;
	cdg->samples = 0;
	cdg->last_ack = 0;
	cdg->round_start = 0;
	cdg->shadow = window;
}

ENTRY1(void, cdg_init, struct sock *, sk)
{
	struct cdg *cdg = CDG(sk, 1);

	if (!cdg)
		return;
	forget(cdg, tcp_sk(sk)->snd_cwnd);
	cdg->end = tcp_sk(sk)->snd_una;
	cdg->rests = false;
}

/* A reduction has ended, which is no gradient: begin a new round trip. */
ALWAYS_INLINE void begin_round(struct cdg *cdg, struct tcp_sock *tp)
{
	cdg->end = tp->snd_nxt;
	cdg->before = cdg->round;
	cdg->round.min = cdg->round.max = 0;
}

ENTRY2(void, cdg_pkts_acked, struct sock *, sk, const struct ack_sample *, sample)
{
	struct cdg *cdg = CDG(sk, 0);
	s32 rtt = sample->rtt_us;

	if (!cdg || rtt < 0)
		return;
	if (rtt == 0)
		rtt = 1;
	/* An ACK of one segment after ACKs of two may have been delayed: it counts only if it is lower. */
	bool may_wait = tcp_sk(sk)->sacked_out == 0;

	if (may_wait && sample->pkts_acked == 1 && cdg->doubted > 0) {
		if (rtt < cdg->round.min)
			cdg->round.min = rtt;
		cdg->doubted--;
		return;
	}
	if (may_wait && sample->pkts_acked > 1 && cdg->doubted < DELACKS)
		cdg->doubted++;
	if (cdg->round.min == 0 || rtt < cdg->round.min)
		cdg->round.min = rtt;
	if (rtt > cdg->round.max)
		cdg->round.max = rtt;
}

/* Enter this round trip's change into the window; the sum over it, extrapolated while there are fewer. */
ALWAYS_INLINE s32 gradient(struct cdg *cdg)
{
	s32 min = cdg->round.min - cdg->before.min;
	s32 max = cdg->round.max - cdg->before.max;
	struct minmax_us *oldest = &cdg->ring[cdg->tail & (WINDOW - 1)];

	cdg->sum.min += min - oldest->min;
	cdg->sum.max += max - oldest->max;
	oldest->min = min;
	oldest->max = max;
	cdg->tail = (cdg->tail + 1) & (WINDOW - 1);
	s32 sum = cdg->sum.min > 0 ? cdg->sum.min : cdg->sum.max;

	if (!cdg->filled) {
		if (cdg->tail == 0)
			cdg->filled = true;
		else if (sum > 0)
			sum = (u32)sum * WINDOW / cdg->tail;
	}
	if (cdg->sum.min <= -EFFECT_US || cdg->sum.max <= -EFFECT_US)
		cdg->ineffectual = 0;
	return sum;
}

/* 1 - e^(-g/G) against a random draw. */
ALWAYS_INLINE bool backs_off(u32 sum)
{
	u32 draw = tailback_random();

	if (sum > 5 * SCALE_US)
		return true;
	u64 left = ((u64)1 << 32) - ((u64)sum << 16) / SCALE_US;

	if (left >> 32)
		return false;
	for (int i = 0; i < 16; i++)
		left = left * left >> 32;
	return draw >= left;
}

ALWAYS_INLINE void watch_slow_start(struct cdg *cdg, struct tcp_sock *tp)
{
	u32 lowest = cdg->round.min;

	/* Zero is no sample: a round trip may begin with an ACK that is doubted. */
	if (lowest > 0)
		cdg->delay_min = cdg->delay_min == 0 ? lowest : least(cdg->delay_min, lowest);
	if (cdg->delay_min == 0)
		return;
	u32 now = NOW_US(tp);

	if (cdg->last_ack == 0 || !is_limited_by_window(tp)) {
		cdg->last_ack = now;
		cdg->round_start = now;
	} else if (now - cdg->last_ack < TRAIN_GAP_US) {
		cdg->last_ack = now;
		if (now - cdg->round_start > most(cdg->delay_min / 2, HYSTART_FLOOR_US)) {
			tp->snd_ssthresh = landing(tp->snd_cwnd);
			return;
		}
	}
	if (cdg->samples < 8)
		cdg->samples++;
	else if (lowest > most(cdg->delay_min + cdg->delay_min / 8, HYSTART_FLOOR_US))
		tp->snd_ssthresh = landing(tp->snd_cwnd);
}

/* What CWR would do: no growth and no gradient until what was under way has arrived; of what is delivered, as much
 * is sent again as leaves ssthresh in the end. */
ALWAYS_INLINE void rest(struct cdg *cdg, struct tcp_sock *tp, u32 acked)
{
	u32 in_flight = tp->packets_out + tp->retrans_out - tp->sacked_out - tp->lost_out;
	u32 mss = most(tp->mss_cache, 1);
	u32 sent = (tp->snd_nxt - cdg->rests_until) / mss;

	cdg->rest_delivered += acked;
	u32 due = ((u64)cdg->rest_delivered * tp->snd_ssthresh + cdg->rest_window - 1) / most(cdg->rest_window, 1);

	tp->snd_cwnd = landing(in_flight + (due > sent ? due - sent : 0));
}

ENTRY3(void, cdg_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cdg *cdg = CDG(sk, 0);

	if (!cdg)
		return;
	if (cdg->rests) {
		if ((s32)(tp->snd_una - cdg->rests_until) <= 0) {
			rest(cdg, tp, acked);
			return;
		}
		tp->snd_cwnd = tp->snd_ssthresh;
		cdg->rests = false;
		begin_round(cdg, tp);
	}
	if (in_slow_start(tp))
		watch_slow_start(cdg, tp);
	if ((s32)(tp->snd_una - cdg->end) > 0 && cdg->round.max > 0) {
		s32 sum = cdg->before.max > 0 ? gradient(cdg) : 0;

		cdg->end = tp->snd_nxt;
		cdg->before = cdg->round;
		cdg->round.min = cdg->round.max = 0;
		cdg->last_ack = 0;
		cdg->samples = 0;
		if (sum > 0 && backs_off(sum)) {
			cdg->ineffectual++;
			if (cdg->ineffectual <= INEFFECTUAL) {
				cdg->shadow = most(cdg->shadow, tp->snd_cwnd);
				if (BITS(tp, inet_conn.icsk_ca_state) == LOSS) {
					cdg->backed = true;
					return;
				}
				tp->snd_ssthresh = landing((u64)tp->snd_cwnd * BACKOFF_BETA / 1024);
				tp->snd_cwnd_cnt = 0;
				cdg->rest_window = tp->snd_cwnd;
				cdg->rest_delivered = 0;
				cdg->rests = true;
				cdg->rests_until = tp->snd_nxt;
				return;
			}
		}
	}
	u32 window = tp->snd_cwnd;

	if (!is_limited_by_window(tp)) {
		cdg->shadow = least(cdg->shadow, window);
		return;
	}
	reno(tp, acked);
	cdg->shadow += tp->snd_cwnd - window;
}

ENTRY1(u32, cdg_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cdg *cdg = CDG(sk, 0);
	u32 window = tp->snd_cwnd;

	tp->snd_cwnd_cnt = 0;
	if (!cdg)
		return half(tp);
	cdg->rests = false;
	if (cdg->backed)
		return landing((u64)window * BACKOFF_BETA / 1024);
	cdg->shadow = least(cdg->shadow / 2, window);
	return landing(most(window / 2, cdg->shadow));
}

ENTRY2(void, cdg_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct cdg *cdg = CDG(sk, 0);

	if (cdg && event == CA_EVENT_COMPLETE_CWR) {
		cdg->backed = false;
		begin_round(cdg, tcp_sk(sk));
	}
	if (cdg && event == CA_EVENT_CWND_RESTART) {
		cdg->backed = false;
		forget(cdg, tcp_sk(sk)->snd_cwnd);
	}
}

ENTRY1(u32, cdg_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)cdg_init,
	.pkts_acked = (void *)cdg_pkts_acked,
	.cong_avoid = (void *)cdg_cong_avoid,
	.ssthresh = (void *)cdg_ssthresh,
	.cwnd_event = (void *)cdg_cwnd_event,
	.undo_cwnd = (void *)cdg_undo_cwnd,
	.name = NAME,
};
