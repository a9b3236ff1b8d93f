/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads the state of the kernel's own CUBIC, by the field names in its type information (BTF). Rust: cc/cubic.rs. */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bictcp {
	u32 last_max_cwnd;
	u32 bic_K;
	u32 tcp_cwnd;
};
#pragma clang attribute pop

INTERNALS
{
	const struct bictcp *cubic = state(sk);

	SHOW(0, cubic->last_max_cwnd, 1);
	/* K in 1/1024 s. */
	SHOW(1, cubic->bic_K, 1024);
	SHOW(2, cubic->tcp_cwnd, 1);
}
