/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the programs here need to know of the kernel, and nothing else: names of types and fields. Their places are
 * filled in from the running kernel's BTF when a program is loaded (CO-RE), so one source serves every kernel that
 * has these names. Names are facts; no kernel code is here.
 *
 * The same sources also compile natively, with -DTAILBACK_NATIVE, for the test that feeds a twin and its Rust
 * counterpart the same acknowledgements.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef u8 bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { OPEN = 0, DISORDER = 1, CWR = 2, RECOVERY = 3, LOSS = 4 };
/* Events from the kernel: sending resumes with nothing in flight, the window was reduced after idle time, a reduction
 * is complete, a timeout, data arrived without or with a CE mark. */
enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

#ifndef TAILBACK_NATIVE
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct ns_common {
	u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sock;

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	u32 len;
	u32 end;
	unsigned char *head;
	unsigned char *data;
};

/* Located at a packet's head + end. */
struct skb_shared_info {
	u16 gso_size;
};

struct sock {
	struct sock_common __sk_common;
	int sk_sndbuf;
	int sk_rcvbuf;
	int sk_wmem_queued;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct tcp_congestion_ops;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u8 icsk_ca_initialized : 1;
	u8 icsk_ca_setsockopt : 1;
	u8 icsk_ca_dst_locked : 1;
	u8 icsk_retransmits;
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_options_received {
	u16 snd_wscale : 4;
	u16 rcv_wscale : 4;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_wnd;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 lost_out;
	u32 sacked_out;
	u8 is_cwnd_limited : 1;
	u32 retrans_out;
	u32 snd_ssthresh;
	u32 segs_out;
	u32 lsndtime;
	u8 ecn_flags;
	u64 tcp_wstamp_ns;
	u64 tcp_clock_cache;
	u64 tcp_mstamp;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 srtt_us;
	u32 packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 app_limited;
	u64 delivered_mstamp;
	u32 rcv_wnd;
	struct tcp_options_received rx_opt;
	u32 max_packets_out;
	u64 bytes_acked;
	struct tcp_rack rack;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 prior_cwnd;
	u32 total_retrans;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct rate_sample {
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
	bool is_ack_delayed;
};

union tcp_cc_info;
struct module;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#ifndef TAILBACK_NATIVE
#pragma clang attribute pop
#endif

ALWAYS_INLINE struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

ALWAYS_INLINE struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

/* sk_pacing_status: this socket is not paced, or paced by the stack. */
#define PACING_NONE 0
#define PACING_NEEDED 1

/* An algorithm's private state: 104 bytes in the socket. */
ALWAYS_INLINE void *state(struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_priv;
}

/* Fails to compile if a twin's state exceeds the 104 bytes. */
#define FITS(type) _Static_assert(sizeof(struct type) <= 104, "does not fit the socket's state")

#ifdef TAILBACK_NATIVE

/* Clock and random numbers of the test. */
u64 tailback_now_us(void);
u32 tailback_random(void);
u32 tailback_jiffies(void);
#define SEC(name) __attribute__((used))
#define BITS(of, field) ((of)->field)
#define LICENSE(text)
ALWAYS_INLINE u64 now_us(struct tcp_sock *tp)
{
	(void)tp;
	return tailback_now_us();
}
ALWAYS_INLINE u32 jiffies(void)
{
	return tailback_jiffies();
}
#define ENTRY1(result, name, type1, arg1) SEC("") result name(type1 arg1)
#define ENTRY2(result, name, type1, arg1, type2, arg2) SEC("") result name(type1 arg1, type2 arg2)
#define ENTRY3(result, name, type1, arg1, type2, arg2, type3, arg3)                                        \
	SEC("") result name(type1 arg1, type2 arg2, type3 arg3)
#define ENTRY4(result, name, type1, arg1, type2, arg2, type3, arg3, type4, arg4)                            \
	SEC("") result name(type1 arg1, type2 arg2, type3 arg3, type4 arg4)
#define STRUCT_OPS SEC("")
void *storage_of(struct sock *sk, u32 size);
#define STORAGE(of) struct of
#define STORED(type, sk, create) ((struct type *)storage_of(sk, sizeof(struct type)))

#else

#define SEC(name) __attribute__((section(name), used))
#define LICENSE(text) char _license[] SEC("license") = text
/* bpf_get_prandom_u32 */
__attribute__((unused)) static u32 (*const tailback_random)(void) = (void *)7;

ALWAYS_INLINE u64 now_us(struct tcp_sock *tp)
{
	/* CLOCK_MONOTONIC in microseconds, read by the kernel for the packet or timer at hand. */
	return tp->tcp_mstamp;
}

__attribute__((unused)) static u64 (*const jiffies64)(void) = (void *)118;
ALWAYS_INLINE u32 jiffies(void)
{
	return jiffies64();
}

/* Reads a bit field at its relocated position, which may differ between kernels. */
#define BITS(of, field)                                                                                    \
	({                                                                                                 \
		const void *place = (const void *)(of) + __builtin_preserve_field_info((of)->field, 0);    \
		u64 value = 0;                                                                             \
		asm volatile("" : "+r"(place));                                                            \
		switch (__builtin_preserve_field_info((of)->field, 1)) {                                   \
		case 1:                                                                                    \
			value = *(const u8 *)place;                                                        \
			break;                                                                             \
		case 2:                                                                                    \
			value = *(const u16 *)place;                                                       \
			break;                                                                             \
		case 4:                                                                                    \
			value = *(const u32 *)place;                                                       \
			break;                                                                             \
		case 8:                                                                                    \
			value = *(const u64 *)place;                                                       \
			break;                                                                             \
		}                                                                                          \
		value <<= __builtin_preserve_field_info((of)->field, 4);                                   \
		value >>= __builtin_preserve_field_info((of)->field, 5);                                   \
		value;                                                                                     \
	})

/* The kernel passes arguments as an array of words; these macros restore their names and types. */
#define ENTRY1(result, name, type1, arg1)                                                                  \
	ALWAYS_INLINE result name##_body(type1 arg1);                                                      \
	SEC("struct_ops/" #name) result name(u64 *context)                                                 \
	{                                                                                                  \
		return name##_body((type1)context[0]);                                                     \
	}                                                                                                  \
	ALWAYS_INLINE result name##_body(type1 arg1)
#define ENTRY2(result, name, type1, arg1, type2, arg2)                                                     \
	ALWAYS_INLINE result name##_body(type1 arg1, type2 arg2);                                          \
	SEC("struct_ops/" #name) result name(u64 *context)                                                 \
	{                                                                                                  \
		return name##_body((type1)context[0], (type2)context[1]);                                  \
	}                                                                                                  \
	ALWAYS_INLINE result name##_body(type1 arg1, type2 arg2)
#define ENTRY3(result, name, type1, arg1, type2, arg2, type3, arg3)                                        \
	ALWAYS_INLINE result name##_body(type1 arg1, type2 arg2, type3 arg3);                              \
	SEC("struct_ops/" #name) result name(u64 *context)                                                 \
	{                                                                                                  \
		return name##_body((type1)context[0], (type2)context[1], (type3)context[2]);               \
	}                                                                                                  \
	ALWAYS_INLINE result name##_body(type1 arg1, type2 arg2, type3 arg3)
#define ENTRY4(result, name, type1, arg1, type2, arg2, type3, arg3, type4, arg4)                            \
	ALWAYS_INLINE result name##_body(type1 arg1, type2 arg2, type3 arg3, type4 arg4);                  \
	SEC("struct_ops/" #name) result name(u64 *context)                                                 \
	{                                                                                                  \
		return name##_body((type1)context[0], (type2)context[1], (type3)context[2],                \
				   (type4)context[3]);                                                     \
	}                                                                                                  \
	ALWAYS_INLINE result name##_body(type1 arg1, type2 arg2, type3 arg3, type4 arg4)
#define STRUCT_OPS SEC(".struct_ops")

/* Additional memory per socket, for algorithms whose state does not fit. */
__attribute__((unused)) static void *(*const storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
#define STORAGE(of)                                                                                        \
	struct {                                                                                           \
		int (*type)[24]; /* BPF_MAP_TYPE_SK_STORAGE */                                             \
		int (*map_flags)[1]; /* BPF_F_NO_PREALLOC */                                               \
		int *key;                                                                                  \
		struct of *value;                                                                          \
	} memories SEC(".maps")
#define STORED(of, sk, create) ((struct of *)storage_get(&memories, sk, NULL, create))

#endif
