/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads the state of the kernel's own BBR, by the field names in its type information (BTF). Rust: cc/bbr.rs. */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct minmax_sample {
	u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};
struct bbr {
	u32 min_rtt_us;
	struct minmax bw;
	u32 mode : 3;
	u32 lt_use_bw : 1;
	u32 lt_bw;
	u32 pacing_gain : 10;
};
#pragma clang attribute pop

INTERNALS
{
	const struct bbr *bbr = state(sk);
	/* Segments a microsecond, in 2^-24. */
	u64 bandwidth = BITS(bbr, lt_use_bw) ? bbr->lt_bw : bbr->bw.s[0].v;

	/* Bits a second of payload: a million times eight times the segment, by 2^24, both over 2^9. */
	SHOW(0, bandwidth * tcp_sk(sk)->mss_cache * 15625, 1 << 15);
	SHOW(1, bbr->min_rtt_us, 1000000);
	SHOW(2, BITS(bbr, mode), 1);
	SHOW(3, BITS(bbr, pacing_gain), 256);
}
