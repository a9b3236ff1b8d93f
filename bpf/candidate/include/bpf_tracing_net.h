/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The short functions on a TCP socket that congestion controls in BPF begin with, by the names of the kernel's own
 * tests; written for tailback. */
#ifndef __BPF_TRACING_NET_H__
#define __BPF_TRACING_NET_H__

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define USEC_PER_MSEC 1000UL
#define USEC_PER_SEC 1000000UL
#define NSEC_PER_USEC 1000UL
#define NSEC_PER_SEC 1000000000UL
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_INIT_CWND 10
#define ICSK_CA_PRIV_SIZE (13 * sizeof(__u64))

#ifndef min
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef clamp
#define clamp(value, low, high) min((typeof(value))max(value, low), high)
#endif
#define tcp_jiffies32 ((__u32)bpf_jiffies64())

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* Sequence numbers wrap, so the sign of their difference decides. */
static __always_inline bool before(__u32 one, __u32 other)
{
	return (__s32)(one - other) < 0;
}
#define after(one, other) before(other, one)

static __always_inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* In slow start it is enough that more than half of the window was used. */
static __always_inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline __u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline __u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

static __always_inline __u32 tcp_stamp_us_delta(__u64 later, __u64 earlier)
{
	return (__s64)(later - earlier) > 0 ? later - earlier : 0;
}

#endif
