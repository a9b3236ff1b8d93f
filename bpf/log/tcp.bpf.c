/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The TCP state log: a row for every segment an established connection receives, taken before the segment is looked
 * at, and a row for every change of the congestion state.
 *
 * Source of the places: the kernel's tracepoints tcp:tcp_probe and tcp:tcp_cong_state_set.
 * Only sockets of the run's own namespaces are logged (HOSTS: their numbers, a list).
 */

enum { RECEIVED = 0, STATE = 1 };

/* As src/tcp_log.rs reads it. */
struct row {
	u64 ns;
	u64 bytes_acked;
	u32 local;
	u32 remote;
	u32 cwnd;
	u32 ssthresh;
	u32 mss;
	u32 snd_una;
	u32 snd_nxt;
	u32 rcv_nxt;
	u32 srtt_us_8;
	u32 rtt_us;
	u32 rto;
	u32 snd_wnd;
	u32 rcv_wnd;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 prior_cwnd;
	u32 length;
	u32 snd_buf;
	u32 snd_buf_used;
	u32 rcv_buf;
	u32 jiffies;
	u8 kind;
	u8 state;
	u8 phase;
	u8 new_phase;
	u8 snd_scale;
	u8 rcv_scale;
	u16 port;
};

struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	int (*max_entries)[1 << 24];
} rows SEC(".maps");

/* Rows that found no room. */
struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	u32 *key;
	u64 *value;
	int (*max_entries)[1];
} lost SEC(".maps");

static void *(*const ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static struct tcp_sock *(*const skc_to_tcp_sock)(void *sk) = (void *)137;
static u64 (*const jiffies64)(void) = (void *)118;
static void *(*const map_lookup_elem)(void *map, const void *key) = (void *)1;

static const u32 ours[] = { HOSTS };

ALWAYS_INLINE bool is_ours(struct sock *sk)
{
	u32 inum = sk->__sk_common.skc_net.net->ns.inum;

	for (u32 i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (ours[i] == inum)
			return true;
	return false;
}

/* A flow's client has an address that ends in 1; the client's port names the connection at both ends. */
ALWAYS_INLINE bool is_client(u32 local)
{
	return local >> 24 == 1;
}

/* A bulk of rows a wake-up: the reader looks often anyway. */
#define NO_WAKEUP 1

ALWAYS_INLINE void log(struct sock *sk, u8 kind, u8 new_phase, u32 length)
{
	if (!is_ours(sk))
		return;
	struct tcp_sock *tp = skc_to_tcp_sock(sk);
	if (!tp)
		return;
	struct row *row = ringbuf_reserve(&rows, sizeof(*row), 0);

	if (!row) {
		u32 zero = 0;
		u64 *count = map_lookup_elem(&lost, &zero);

		if (count)
			__sync_fetch_and_add(count, 1);
		return;
	}

	row->ns = ktime_get_ns();
	row->bytes_acked = tp->bytes_acked;
	row->local = sk->__sk_common.skc_rcv_saddr;
	row->remote = sk->__sk_common.skc_daddr;
	row->cwnd = tp->snd_cwnd;
	row->ssthresh = tp->snd_ssthresh;
	row->mss = tp->mss_cache;
	row->snd_una = tp->snd_una;
	row->snd_nxt = tp->snd_nxt;
	row->rcv_nxt = tp->rcv_nxt;
	row->srtt_us_8 = tp->srtt_us;
	row->rtt_us = tp->rack.rtt_us;
	row->rto = tp->inet_conn.icsk_rto;
	row->snd_wnd = tp->snd_wnd;
	row->rcv_wnd = tp->rcv_wnd;
	row->packets_out = tp->packets_out;
	row->sacked_out = tp->sacked_out;
	row->lost_out = tp->lost_out;
	row->retrans_out = tp->retrans_out;
	row->total_retrans = tp->total_retrans;
	row->prior_cwnd = tp->prior_cwnd;
	row->length = length;
	row->snd_buf = sk->sk_sndbuf;
	row->snd_buf_used = sk->sk_wmem_queued;
	row->rcv_buf = sk->sk_rcvbuf;
	row->jiffies = jiffies64();
	row->kind = kind;
	row->state = sk->__sk_common.skc_state;
	row->phase = BITS(tp, inet_conn.icsk_ca_state);
	row->new_phase = new_phase;
	row->snd_scale = BITS(tp, rx_opt.snd_wscale);
	row->rcv_scale = BITS(tp, rx_opt.rcv_wscale);
	row->port = is_client(row->local) ? sk->__sk_common.skc_num : __builtin_bswap16(sk->__sk_common.skc_dport);
	ringbuf_submit(row, NO_WAKEUP);
}

SEC("tp_btf/tcp_probe") int on_received(u64 *context)
{
	struct sk_buff *skb = (void *)context[1];

	log((void *)context[0], RECEIVED, 0, skb->len);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set") int on_state(u64 *context)
{
	log((void *)context[0], STATE, context[1], 0);
	return 0;
}
