/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kernel's side of a congestion control that is compiled natively for the simulator: a socket for each connection,
 * the helpers, and the functions that the kernel lends to BPF programs, written from their formulas.
 * crates/tailback-bpf/src/native.rs calls what begins with tailback_.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

void *calloc(unsigned long count, unsigned long size);
void free(void *what);

/* Timer frequency of the simulated kernel, as in Debian and Ubuntu. */
#define HZ 250
const unsigned long CONFIG_HZ = HZ;
/* Uptime at the start of a run; not zero, because many algorithms take a time of zero as "never". */
#define UP_NS 1000000000000ull

struct storage {
	struct storage *next;
	void *map;
	u64 value[];
};

/* The layout is the same in native.rs. */
struct window {
	u32 cwnd;
	u32 ssthresh;
	/* Bytes per second; all ones for none. */
	u64 pacing;
	/* For a Rust crate: its fault. */
	const char *fault;
};

struct connection {
	struct tcp_sock tp;
	const struct tcp_congestion_ops *ops;
	struct storage *storage;
	u64 random;
	u64 now_ns;
};

/* The layout is the same in native.rs. Sequence numbers wrap as in the kernel. */
struct given {
	u64 now_ns;
	u64 departs_ns;
	u64 bytes_acked;
	s32 rtt_us;
	u32 srtt_us;
	u32 rtt_min_us;
	u32 covered;
	u32 delivered;
	u32 marked;
	u32 losses;
	u32 snd_una;
	u32 snd_nxt;
	u32 in_flight;
	u32 prior_in_flight;
	u32 is_limited;
	u32 grows;
	/* Delivery rate sample: segments delivered, the interval (0: unknown), and segments delivered since the acknowledged
	 * segment was sent. */
	u32 sampled;
	u32 interval_us;
	u32 delivered_since;
	u32 is_app_limited;
};

/* The connection whose hook is running; a run has one thread. */
static struct connection *current;

typedef u64 (*hook)(u64 *words);

static u64 call(void *function, u64 a, u64 b, u64 c)
{
	u64 words[4] = { (u64)&current->tp, a, b, c };

	return ((hook)function)(words);
}

u64 bpf_ktime_get_ns(void)
{
	return UP_NS + current->now_ns;
}

u64 bpf_jiffies64(void)
{
	return bpf_ktime_get_ns() / (1000000000ull / HZ);
}

/* Marsaglia's xorshift (2003) with a multiplication (Vigna 2016): the connection's own stream. */
u32 bpf_get_prandom_u32(void)
{
	u64 x = current->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	current->random = x;
	return x * 2685821657736338717ull >> 32;
}

void *tailback_storage(void *map, u64 size, void *sk, void *value, u64 flags)
{
	struct connection *of = sk;
	struct storage *found = of->storage;

	while (found && found->map != map)
		found = found->next;
	if (!found && (flags & BPF_SK_STORAGE_GET_F_CREATE)) {
		found = calloc(1, sizeof(*found) + size + 8);
		if (!found)
			return NULL;
		found->map = map;
		found->next = of->storage;
		of->storage = found;
		if (value)
			__builtin_memcpy(found->value, value, size);
	}
	return found ? found->value : NULL;
}

long bpf_sk_storage_delete(void *map, void *sk)
{
	struct connection *of = sk;

	for (struct storage **at = &of->storage; *at; at = &(*at)->next)
		if ((*at)->map == map) {
			struct storage *gone = *at;

			*at = gone->next;
			free(gone);
			return 0;
		}
	return -2;
}

/* The kernel functions available to BPF programs. */

/* Slow start: a segment of window for each acknowledged, up to ssthresh; returns those it did not use. */
u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 room = tp->snd_ssthresh > tp->snd_cwnd ? tp->snd_ssthresh - tp->snd_cwnd : 0;
	u32 used = acked < room ? acked : room;
	u32 window = tp->snd_cwnd + used;

	tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
	return acked - used;
}

/* One segment of window for each `needed` of credit. Credit from a time when more was needed is worth one step. */
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 needed, u32 acked)
{
	u64 credit = tp->snd_cwnd_cnt;
	u64 window = tp->snd_cwnd;

	needed = needed ? needed : 1;
	if (credit >= needed) {
		credit = 0;
		window++;
	}
	credit += acked;
	window += credit / needed;
	tp->snd_cwnd_cnt = credit % needed;
	tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
}

/* The rule that the stack knows as "limited by the window" is in is_cwnd_limited whole. */
void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	(void)ack;
	if (!tp->is_cwnd_limited)
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

u32 tcp_reno_ssthresh(struct sock *sk)
{
	u32 half = ((struct tcp_sock *)sk)->snd_cwnd / 2;

	return half > 2 ? half : 2;
}

u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

/* Functions that the simulator calls. Each call passes the window in and out. */

static void enter(struct connection *of, u64 now_ns, const struct window *window)
{
	current = of;
	of->now_ns = now_ns;
	of->tp.tcp_mstamp = (UP_NS + now_ns) / 1000;
	of->tp.tcp_clock_cache = UP_NS + now_ns;
	of->tp.snd_cwnd = window->cwnd;
	of->tp.snd_ssthresh = window->ssthresh;
}

static void leave(struct connection *of, struct window *window)
{
	const struct sock *sk = &of->tp.inet_conn.icsk_inet.sk;

	window->cwnd = of->tp.snd_cwnd;
	window->ssthresh = of->tp.snd_ssthresh;
	window->pacing = sk->sk_pacing_rate;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		window->pacing = ~0ull;
}

u64 tailback_ops_size(void)
{
	return sizeof(struct tcp_congestion_ops);
}

/* The hooks it has: bit 0 for all the mandatory ones, bit 1 for cong_control. */
u32 tailback_hooks(const struct tcp_congestion_ops *ops)
{
	u32 is_whole = ops->ssthresh && ops->undo_cwnd && (ops->cong_avoid || ops->cong_control);

	return is_whole | (ops->cong_control ? 2 : 0);
}

struct connection *tailback_new(const struct tcp_congestion_ops *ops, u64 seed)
{
	struct connection *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->ops = ops;
	made->random = seed | 1;
	made->tp.snd_cwnd_clamp = ~0u;
	made->tp.inet_conn.icsk_inet.sk.sk_pacing_rate = ~0ul;
	made->tp.inet_conn.icsk_inet.sk.sk_max_pacing_rate = ~0ul;
	return made;
}

void tailback_free(struct connection *of)
{
	while (of->storage) {
		struct storage *next = of->storage->next;

		free(of->storage);
		of->storage = next;
	}
	free(of);
}

void tailback_established(struct connection *of, u64 now_ns, struct window *window, u32 mss, u32 srtt_us)
{
	enter(of, now_ns, window);
	of->tp.mss_cache = mss;
	of->tp.srtt_us = srtt_us * 8;
	for (int i = 0; i < 3; i++)
		of->tp.rtt_min.s[i].v = srtt_us ? srtt_us : ~0u;
	of->tp.app_limited = ~0u;
	if (of->ops->init)
		call(of->ops->init, 0, 0, 0);
	of->tp.inet_conn.icsk_ca_initialized = 1;
	leave(of, window);
}

static void take(struct tcp_sock *tp, const struct given *given)
{
	tp->snd_una = given->snd_una;
	tp->snd_nxt = given->snd_nxt;
	tp->packets_out = given->in_flight;
	tp->bytes_acked = given->bytes_acked;
	tp->srtt_us = given->srtt_us * 8;
	tp->tcp_wstamp_ns = UP_NS + given->departs_ns;
	tp->lsndtime = bpf_jiffies64();
	for (int i = 0; i < 3; i++)
		tp->rtt_min.s[i].v = given->rtt_min_us;
	tp->is_cwnd_limited = given->is_limited;
	tp->max_packets_out = given->is_limited ? given->prior_in_flight : 0;
	tp->app_limited = given->is_app_limited ? tp->delivered + given->in_flight : 0;
}

/* An acknowledgement, before losses and the state are judged, in the kernel's order: pkts_acked, then in_ack_event. */
void tailback_sample(struct connection *of, const struct given *given, struct window *window)
{
	const struct tcp_congestion_ops *ops = of->ops;

	enter(of, given->now_ns, window);
	of->tp.delivered += given->delivered;
	of->tp.delivered_ce += given->marked;
	take(&of->tp, given);
	if (ops->pkts_acked) {
		struct ack_sample sample = {
			.pkts_acked = given->covered,
			.rtt_us = given->rtt_us,
			.in_flight = given->prior_in_flight,
		};

		call(ops->pkts_acked, (u64)&sample, 0, 0);
	}
	if (ops->in_ack_event)
		call(ops->in_ack_event, CA_ACK_SLOWPATH | (given->marked ? CA_ACK_ECE : 0), 0, 0);
	leave(of, window);
}

/* The same acknowledgement afterwards. */
void tailback_ack(struct connection *of, const struct given *given, struct window *window)
{
	const struct tcp_congestion_ops *ops = of->ops;

	enter(of, given->now_ns, window);
	of->tp.lost += given->losses;
	take(&of->tp, given);
	if (ops->cong_control) {
		struct rate_sample rs = {
			.prior_delivered = of->tp.delivered - given->delivered_since,
			.delivered = given->interval_us ? (s32)given->sampled : -1,
			.interval_us = given->interval_us ? (long)given->interval_us : -1,
			.rtt_us = given->rtt_us,
			.losses = given->losses,
			.acked_sacked = given->delivered,
			.prior_in_flight = given->prior_in_flight,
			.is_app_limited = given->is_app_limited,
		};

		call(ops->cong_control, given->snd_una, 0, (u64)&rs);
	} else if (given->grows) {
		call(ops->cong_avoid, given->snd_una, given->delivered, 0);
	}
	leave(of, window);
}

/* A reduction begins: after a timeout if `is_timeout`. */
void tailback_congestion(struct connection *of, u64 now_ns, u32 is_timeout, struct window *window)
{
	enter(of, now_ns, window);
	of->tp.prior_cwnd = of->tp.snd_cwnd;
	if (!is_timeout)
		of->tp.snd_cwnd_cnt = 0;
	of->tp.snd_ssthresh = call(of->ops->ssthresh, 0, 0, 0);
	if (is_timeout) {
		if (of->ops->cwnd_event)
			call(of->ops->cwnd_event, CA_EVENT_LOSS, 0, 0);
		of->tp.snd_cwnd_cnt = 0;
	}
	leave(of, window);
}

void tailback_state(struct connection *of, u64 now_ns, u32 from, u32 to, struct window *window)
{
	const struct tcp_congestion_ops *ops = of->ops;

	(void)from;
	enter(of, now_ns, window);
	if (ops->set_state)
		call(ops->set_state, to, 0, 0);
	of->tp.inet_conn.icsk_ca_state = to;
	leave(of, window);
}

/* A reduction is complete. Called before the state changes from CWR, and after it has changed from Recovery. */
void tailback_complete(struct connection *of, u64 now_ns, struct window *window)
{
	const struct tcp_congestion_ops *ops = of->ops;

	enter(of, now_ns, window);
	if (!ops->cong_control && ops->cwnd_event)
		call(ops->cwnd_event, CA_EVENT_COMPLETE_CWR, 0, 0);
	leave(of, window);
}

void tailback_undo(struct connection *of, u64 now_ns, struct window *window)
{
	enter(of, now_ns, window);
	of->tp.snd_cwnd = (u32)call(of->ops->undo_cwnd, 0, 0, 0);
	leave(of, window);
}

/* Sending resumes after an idle time, or the window was reduced for it. */
void tailback_event(struct connection *of, u64 now_ns, u64 idle_ns, u32 is_app_limited, u32 event,
		    struct window *window)
{
	enter(of, now_ns, window);
	of->tp.lsndtime = (UP_NS + now_ns - idle_ns) / (1000000000ull / HZ);
	of->tp.packets_out = 0;
	of->tp.app_limited = is_app_limited ? ~0u : 0;
	if (of->ops->cwnd_event)
		call(of->ops->cwnd_event, event, 0, 0);
	leave(of, window);
}
