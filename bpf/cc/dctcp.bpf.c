/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DCTCP: cut in proportion to the share of marked segments.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/dctcp.rs.
 *
 * The kernel forces:
 * - The hook that asks for ssthresh does not say why: what follows, Recovery or a timeout, halves instead.
 */

/* g = 2^-SHIFT. */
#ifndef SHIFT
#define SHIFT 4
#endif
/* In 1/1024. */
#ifndef INITIAL_ALPHA
#define INITIAL_ALPHA 1024u
#endif
#define ONE 1024u

/* tcp_sock.ecn_flags: echo marks to the peer. */
#define DEMAND_CWR 4

/* inet_connection_sock.icsk_ack.pending: an ACK waits for its timer. */
#define ACK_IS_DELAYED 2
/* tcp_congestion_ops.flags: negotiate ECN, and report for every segment whether it was marked. */
#define NEEDS_ECN 2

struct dctcp {
	u32 alpha;
	u32 end;
	u32 delivered;
	u32 delivered_ce;
	/* The receiver's half: the latest segment was marked, and what it had received then. */
	u32 received;
	u8 marked;
};
FITS(dctcp);

#ifdef TAILBACK_NATIVE
ALWAYS_INLINE void send_ack(struct tcp_sock *tp, u32 next)
{
	(void)tp, (void)next;
}
#else
static long (*const send_ack)(void *tp, u32 next) = (void *)116;
#endif

INTERNALS
{
	const struct dctcp *dctcp = state(sk);

	SHOW(0, dctcp->alpha, ONE);
}

ENTRY1(void, dctcp_init, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *dctcp = state(sk);

	dctcp->alpha = INITIAL_ALPHA;
	dctcp->end = tp->snd_una;
	dctcp->delivered = tp->delivered;
	dctcp->delivered_ce = tp->delivered_ce;
	dctcp->received = tp->rcv_nxt;
	dctcp->marked = false;
}

/* Once a window. */
ALWAYS_INLINE void adapt(struct dctcp *dctcp, struct tcp_sock *tp)
{
	u32 delivered = tp->delivered - dctcp->delivered;
	u32 marked = tp->delivered_ce - dctcp->delivered_ce;
	u32 decay = dctcp->alpha >> SHIFT;

	/* What is too small to decay goes (Linux dctcp_update_alpha, min_not_zero). */
	dctcp->alpha -= decay ? decay : dctcp->alpha;
	if (marked > 0) {
		u32 share = ((u64)marked << (10 - SHIFT)) / most(delivered, 1);

		dctcp->alpha = least(dctcp->alpha + share, ONE);
	}
	dctcp->delivered = tp->delivered;
	dctcp->delivered_ce = tp->delivered_ce;
	dctcp->end = tp->snd_nxt;
}

ENTRY2(void, dctcp_in_ack_event, struct sock *, sk, u32, flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *dctcp = state(sk);

	if ((s32)(tp->snd_una - dctcp->end) >= 0)
		adapt(dctcp, tp);
}

ENTRY3(void, dctcp_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_limited_by_window(tp))
		reno(tp, acked);
}

ENTRY1(u32, dctcp_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *dctcp = state(sk);
	u32 window = tp->snd_cwnd;

	tp->snd_cwnd_cnt = 0;
	return landing(window - (u32)((u64)window * dctcp->alpha / (2 * ONE)));
}

ENTRY2(void, dctcp_set_state, struct sock *, sk, u8, phase)
{
	u8 before = BITS(inet_csk(sk), icsk_ca_state);

	/* Asked for just now, unless a reduction was under way. */
	if (phase == RECOVERY && before != RECOVERY && before != CWR)
		tcp_sk(sk)->snd_ssthresh = half(tcp_sk(sk));
}

ALWAYS_INLINE void hear(struct dctcp *dctcp, struct tcp_sock *tp, bool marked)
{
	if (dctcp->marked != marked) {
		/* What waits to be acknowledged came before the change. */
		if (tp->inet_conn.icsk_ack.pending & ACK_IS_DELAYED)
			send_ack(tp, dctcp->received);
		dctcp->marked = marked;
	}
	dctcp->received = tp->rcv_nxt;
	if (marked)
		tp->ecn_flags |= DEMAND_CWR;
	else
		tp->ecn_flags &= ~DEMAND_CWR;
}

ENTRY2(void, dctcp_cwnd_event, struct sock *, sk, enum tcp_ca_event, event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *dctcp = state(sk);

	switch (event) {
	case CA_EVENT_ECN_IS_CE:
		hear(dctcp, tp, true);
		break;
	case CA_EVENT_ECN_NO_CE:
		hear(dctcp, tp, false);
		break;
	case CA_EVENT_LOSS:
		tp->snd_ssthresh = half(tp);
		break;
	default:
		break;
	}
}

ENTRY1(u32, dctcp_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = NEEDS_ECN,
	.name = NAME,
};
