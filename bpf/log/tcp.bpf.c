/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The TCP state log. It has a row for every segment that an established connection receives, taken before processing; a
 * row for every segment sent, taken at the device; and a row for every change of the congestion state.
 *
 * Source of the places: the kernel's tracepoints tcp:tcp_probe, net:net_dev_start_xmit and tcp:tcp_cong_state_set.
 * Only sockets of the run's own namespaces are logged. With -DBEFORE_CASTS for kernels before 6.2, which lack
 * bpf_rdonly_cast and let a pointer be followed without it.
 */

enum { RECEIVED = 0, STATE = 1, SENT = 2 };

#define ESTABLISHED 1

/* The layout that src/tcp_log.rs reads. */
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
	/* From the segment's header. */
	u32 seq;
	u32 ack;
	u32 flags;
	/* Payload of each segment that this one will be cut into; 0 if it is not cut. */
	u32 cut;
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

/* Rows lost because the ring was full. */
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
static void *(*const map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#ifndef BEFORE_CASTS
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __attribute__((section(".ksyms")));
#endif

/* No wake-up per row: the reader polls the ring. */
#define NO_WAKEUP 1

/* Fields of a TCP header, and the payload length. */
struct header {
	u32 seq;
	u32 ack;
	u32 flags;
	u32 length;
	u32 cut;
};

/* `packet` points to a TCP header of a segment of `length` bytes, the header included. */
ALWAYS_INLINE struct header header_of(const unsigned char *packet, u32 length)
{
	u32 words[4] = {};
	struct header header = {};

	if (probe_read_kernel(words, sizeof(words), packet))
		return header;
	u32 fourth = __builtin_bswap32(words[3]);
	u32 own = (fourth >> 28) * 4;

	header.seq = __builtin_bswap32(words[1]);
	header.ack = __builtin_bswap32(words[2]);
	header.flags = fourth >> 16 & 0xff;
	header.length = length > own ? length - own : 0;
	return header;
}

ALWAYS_INLINE void log(struct sock *sk, struct tcp_sock *tp, u8 kind, u8 new_phase, struct header header)
{
	if (!tp || !is_ours(sk))
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
	row->local = local_of(sk);
	row->remote = remote_of(sk);
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
	row->length = header.length;
	row->seq = header.seq;
	row->ack = header.ack;
	row->flags = header.flags;
	row->cut = header.cut;
	row->snd_buf = sk->sk_sndbuf;
	row->snd_buf_used = sk->sk_wmem_queued;
	row->rcv_buf = sk->sk_rcvbuf;
	row->jiffies = jiffies();
	row->kind = kind;
	row->state = sk->__sk_common.skc_state;
	row->phase = BITS(tp, inet_conn.icsk_ca_state);
	row->new_phase = new_phase;
	row->snd_scale = BITS(tp, rx_opt.snd_wscale);
	row->rcv_scale = BITS(tp, rx_opt.rcv_wscale);
	row->port = port_of(sk);
	ringbuf_submit(row, NO_WAKEUP);
}

SEC("tp_btf/tcp_probe") int on_received(u64 *context)
{
	struct sk_buff *skb = (void *)context[1];

	struct sock *sk = (void *)context[0];

	log(sk, skc_to_tcp_sock(sk), RECEIVED, 0, header_of(skb->data, skb->len));
	return 0;
}

#define V4_HEADER 20
#define V6_HEADER 40
#define TCP 6

/* Attached only if an instrument records sent segments. */
SEC("tp_btf/net_dev_start_xmit") int on_sent(u64 *context)
{
	struct sk_buff *skb = (void *)context[0];
	struct sock *sk = skb->sk;
	unsigned char ip[V4_HEADER] = {};
	u32 before;

	if (!sk || sk->__sk_common.skc_state != ESTABLISHED)
		return 0;
	/* Our hosts send no IP options, and no extensions. */
	if (probe_read_kernel(ip, sizeof(ip), skb->data))
		return 0;
	if (ip[0] == 0x45 && ip[9] == TCP)
		before = V4_HEADER;
	else if (ip[0] >> 4 == 6 && ip[6] == TCP)
		before = V6_HEADER;
	else
		return 0;
#ifdef BEFORE_CASTS
	struct tcp_sock *tp = skc_to_tcp_sock(sk);
#else
	/* The verifier does not know the type of a packet's socket, which is no argument of the tracepoint. The code above has
	 * checked that it is an established TCP socket. */
	struct tcp_sock *tp = bpf_rdonly_cast(sk, __builtin_btf_type_id(*(struct tcp_sock *)0, 1));
#endif

	struct header header = header_of(skb->data + before, skb->len - before);
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	u16 cut = 0;

	probe_read_kernel(&cut, sizeof(cut), &shared->gso_size);
	header.cut = cut;
	log(sk, tp, SENT, 0, header);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set") int on_state(u64 *context)
{
	struct header none = {};

	struct sock *sk = (void *)context[0];

	log(sk, skc_to_tcp_sock(sk), STATE, context[1], none);
	return 0;
}
