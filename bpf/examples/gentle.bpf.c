/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Gentle Reno: Reno that gives back an eighth of the window on congestion where delay shows that the queue is short,
 * and half of it otherwise. An example of a congestion control in one file, as people write them for the kernel.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"

char _license[] SEC("license") = "Dual MIT/GPL";

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 needed, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* The queue is short while the RTT is at most SHORT/16 of the smallest. */
#ifndef SHORT
#define SHORT 18
#endif

struct gentle {
	__u32 rtt_us;
	__u32 rtt_min_us;
};

SEC("struct_ops")
void BPF_PROG(gentle_init, struct sock *sk)
{
	struct gentle *gentle = inet_csk_ca(sk);

	gentle->rtt_us = 0;
	gentle->rtt_min_us = ~0U;
}

SEC("struct_ops")
void BPF_PROG(gentle_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct gentle *gentle = inet_csk_ca(sk);

	if (sample->rtt_us <= 0)
		return;
	gentle->rtt_us = sample->rtt_us;
	gentle->rtt_min_us = min(gentle->rtt_min_us, gentle->rtt_us);
}

SEC("struct_ops")
void BPF_PROG(gentle_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(gentle_ssthresh, struct sock *sk)
{
	const struct gentle *gentle = inet_csk_ca(sk);
	__u32 window = tcp_sk(sk)->snd_cwnd;

	if ((__u64)gentle->rtt_us * 16 > (__u64)gentle->rtt_min_us * SHORT)
		return tcp_reno_ssthresh(sk);
	return max(window - window / 8, 2U);
}

SEC("struct_ops")
__u32 BPF_PROG(gentle_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops gentle = {
	.init = (void *)gentle_init,
	.pkts_acked = (void *)gentle_pkts_acked,
	.cong_avoid = (void *)gentle_cong_avoid,
	.ssthresh = (void *)gentle_ssthresh,
	.undo_cwnd = (void *)gentle_undo_cwnd,
	.name = "gentle",
};
