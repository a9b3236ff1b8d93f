/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * HighSpeed TCP: above 38 segments the window grows faster and is cut less, the larger it is.
 *
 * Law and source: the Rust twin's, crates/tailback-core/src/cc/highspeed.rs, variant linux.
 *
 * The kernel forces:
 * - The row is found from the start of the table, since a loop must be seen to end; the row is the same.
 */

#define ROWS 72u

/* RFC 3649 appendix B: the window up to which row i holds, with a = i + 1, and b in 1/256. */
static const struct {
	u32 window;
	u32 b;
} TABLE[ROWS] = {
	{ 38, 128 }, { 118, 112 }, { 221, 104 }, { 347, 98 }, { 495, 93 }, { 663, 89 },
	{ 851, 86 }, { 1058, 83 }, { 1284, 81 }, { 1529, 78 }, { 1793, 76 }, { 2076, 74 },
	{ 2378, 72 }, { 2699, 71 }, { 3039, 69 }, { 3399, 68 }, { 3778, 66 }, { 4177, 65 },
	{ 4596, 64 }, { 5036, 62 }, { 5497, 61 }, { 5979, 60 }, { 6483, 59 }, { 7009, 58 },
	{ 7558, 57 }, { 8130, 56 }, { 8726, 55 }, { 9346, 54 }, { 9991, 53 }, { 10661, 52 },
	{ 11358, 52 }, { 12082, 51 }, { 12834, 50 }, { 13614, 49 }, { 14424, 48 }, { 15265, 48 },
	{ 16137, 47 }, { 17042, 46 }, { 17981, 45 }, { 18955, 45 }, { 19965, 44 }, { 21013, 43 },
	{ 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 }, { 26881, 40 }, { 28193, 39 },
	{ 29557, 39 }, { 30975, 38 }, { 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 },
	{ 38992, 35 }, { 40808, 35 }, { 42707, 34 }, { 44694, 33 }, { 46776, 33 }, { 48961, 32 },
	{ 51258, 32 }, { 53677, 31 }, { 56230, 30 }, { 58932, 30 }, { 61799, 29 }, { 64851, 28 },
	{ 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 }, { 84035, 25 }, { 89053, 24 },
};

struct highspeed {
	u32 row;
	u32 credit;
};
FITS(highspeed);

INTERNALS
{
	const struct highspeed *highspeed = state(sk);
	u32 row = least(highspeed->row, ROWS - 1);

	SHOW(0, row + 1, 1);
	SHOW(1, TABLE[row].b, 256);
}

ENTRY1(void, highspeed_init, struct sock *, sk)
{
	struct highspeed *highspeed = state(sk);

	highspeed->row = 0;
	highspeed->credit = 0;
}

ALWAYS_INLINE u32 find_row(u32 window)
{
	u32 row = 0;

	for (u32 i = 0; i < ROWS - 1; i++)
		if (window > TABLE[i].window)
			row = i + 1;
	return row;
}

ENTRY3(void, highspeed_cong_avoid, struct sock *, sk, u32, ack, u32, acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *highspeed = state(sk);

	if (!is_limited_by_window(tp))
		return;
	if (in_slow_start(tp)) {
		slow_start(tp, acked);
		return;
	}
	u32 window = tp->snd_cwnd;

	highspeed->row = find_row(window);
	highspeed->credit += highspeed->row + 1;
	if (highspeed->credit >= window) {
		highspeed->credit -= window;
		tp->snd_cwnd = least(window + 1, tp->snd_cwnd_clamp);
	}
}

ENTRY1(u32, highspeed_ssthresh, struct sock *, sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *highspeed = state(sk);
	u32 row = least(highspeed->row, ROWS - 1);

	tp->snd_cwnd_cnt = 0;
	highspeed->credit = 0;
	return landing(tp->snd_cwnd - (u32)((u64)tp->snd_cwnd * TABLE[row].b / 256));
}

ENTRY2(void, highspeed_set_state, struct sock *, sk, u8, phase)
{
	struct highspeed *highspeed = state(sk);

	if (phase == LOSS)
		highspeed->credit = 0;
}

ENTRY1(u32, highspeed_undo_cwnd, struct sock *, sk)
{
	return undone(tcp_sk(sk));
}

STRUCT_OPS struct tcp_congestion_ops twin = {
	.init = (void *)highspeed_init,
	.cong_avoid = (void *)highspeed_cong_avoid,
	.ssthresh = (void *)highspeed_ssthresh,
	.set_state = (void *)highspeed_set_state,
	.undo_cwnd = (void *)highspeed_undo_cwnd,
	.name = NAME,
};
