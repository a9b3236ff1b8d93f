/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Steady: sends at the rate that was delivered of late, a little faster while no queue stands, and keeps its state in
 * the socket's BPF storage. An example with cong_control and pacing; not meant for anybody's network.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define ROUNDS 8

struct steady {
	/* Of each of the last rounds the highest delivery rate, in bytes a second. */
	__u64 rates[ROUNDS];
	__u32 round;
	__u32 round_ends;
	__u32 rtt_min_us;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct steady);
} states SEC(".maps");

SEC("struct_ops")
void BPF_PROG(steady_init, struct sock *sk)
{
	struct steady *steady = bpf_sk_storage_get(&states, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!steady)
		return;
	steady->rtt_min_us = ~0U;
	sk->sk_pacing_status = SK_PACING_NEEDED;
}

static __always_inline __u64 highest(const struct steady *steady)
{
	__u64 rate = 0;

	for (int i = 0; i < ROUNDS; i++)
		rate = max(rate, steady->rates[i]);
	return rate;
}

SEC("struct_ops")
void BPF_PROG(steady_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct steady *steady = bpf_sk_storage_get(&states, sk, NULL, 0);
	__u64 rate, bdp;
	__u32 at;

	if (!steady)
		return;
	if (rs->rtt_us > 0)
		steady->rtt_min_us = min(steady->rtt_min_us, (__u32)rs->rtt_us);
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	if (!before(tp->delivered, steady->round_ends)) {
		steady->round_ends = tp->delivered + tcp_packets_in_flight(tp);
		steady->round++;
		steady->rates[steady->round % ROUNDS] = 0;
	}
	at = steady->round % ROUNDS;
	rate = (__u64)rs->delivered * tp->mss_cache * USEC_PER_SEC / (__u64)rs->interval_us;
	if (!rs->is_app_limited || rate > steady->rates[at])
		steady->rates[at] = max(steady->rates[at], rate);
	rate = highest(steady);
	bdp = rate * steady->rtt_min_us / USEC_PER_SEC / tp->mss_cache;
	/* Twice as fast until the window was ten rounds old, then one round of eight a quarter faster. */
	if (steady->round < 10)
		rate *= 2;
	else if (at == 0)
		rate += rate / 4;
	else if (at == 1)
		rate -= rate / 4;
	sk->sk_pacing_rate = max(rate, 2ULL * tp->mss_cache);
	tp->snd_cwnd = min((__u32)max(2 * bdp, 10ULL), tp->snd_cwnd_clamp);
}

SEC("struct_ops")
__u32 BPF_PROG(steady_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(steady_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops steady = {
	.init = (void *)steady_init,
	.cong_control = (void *)steady_cong_control,
	.ssthresh = (void *)steady_ssthresh,
	.undo_cwnd = (void *)steady_undo_cwnd,
	.name = "steady",
};
