/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A socket for one twin, compiled natively behind it: the differential test plays the kernel. */

static struct tcp_sock socket_of_test;
static u64 clock_us;
static u64 spare[64];

u64 tailback_now_us(void)
{
	return clock_us;
}

u32 tailback_jiffies(void)
{
	return clock_us * KERNEL_HZ / 1000000;
}

/* The next random numbers, given by the test; it counts how many were taken. */
static u32 draws[4];
static u32 taken;

u32 tailback_random(void)
{
	return draws[taken++ & 3];
}

void test_draw(u32 next)
{
	taken = 0;
	draws[0] = next;
}

u32 test_taken(void)
{
	return taken;
}

void *storage_of(struct sock *sk, u32 size)
{
	(void)sk;
	return size <= sizeof(spare) ? spare : NULL;
}

static struct sock *sk(void)
{
	return (struct sock *)&socket_of_test;
}

void test_begin(u64 now_us, u32 cwnd, u32 mss, u32 srtt_us)
{
	__builtin_memset(&socket_of_test, 0, sizeof(socket_of_test));
	__builtin_memset(spare, 0, sizeof(spare));
	clock_us = now_us;
	socket_of_test.snd_cwnd = cwnd;
	socket_of_test.snd_ssthresh = 0x7fffffff;
	socket_of_test.snd_cwnd_clamp = 0xffffffff;
	socket_of_test.mss_cache = mss;
	socket_of_test.srtt_us = srtt_us * 8;
	if (twin.init)
		twin.init(sk());
}

/* As differential/native.rs has it. */
struct given {
	u64 now_us;
	s32 rtt_us;
	u32 covered;
	u32 delivered;
	u32 marked;
	u32 snd_una;
	u32 snd_nxt;
	u32 limited;
	u32 grows;
	/* Of the delivery rate: so much came in so long, of what was sent when so much had been delivered. */
	u32 sampled;
	u32 interval_us;
	u32 prior_delivered;
	u32 losses;
	u32 prior_in_flight;
	u32 wait_us;
	u32 is_delayed;
};

/* An acknowledgement; `rtt_us` negative for none, `grows` if the kernel would call the growth hook. */
void test_ack(const struct given *given)
{
	struct tcp_sock *tp = &socket_of_test;
	struct ack_sample sample = { .pkts_acked = given->covered, .rtt_us = given->rtt_us };

	clock_us = given->now_us;
	tp->snd_una = given->snd_una;
	tp->snd_nxt = given->snd_nxt;
	tp->tcp_clock_cache = given->now_us * 1000;
	tp->tcp_wstamp_ns = (given->now_us + given->wait_us) * 1000;
	tp->is_cwnd_limited = given->limited;
	/* What is under way, for the twins that ask the stack. */
	tp->packets_out = (tp->snd_nxt - tp->snd_una) / (tp->mss_cache ? tp->mss_cache : 1);
	tp->delivered += given->delivered;
	tp->delivered_ce += given->marked;
	tp->delivered_mstamp = given->now_us;
	tp->lost += given->losses;
	if (sample.rtt_us >= 0)
		tp->srtt_us = sample.rtt_us * 8;
	if (twin.pkts_acked)
		twin.pkts_acked(sk(), &sample);
	if (twin.in_ack_event)
		twin.in_ack_event(sk(), 0);
	if (twin.cong_control) {
		struct rate_sample rs = {
			.prior_delivered = given->prior_delivered,
			.delivered = given->sampled,
			.interval_us = given->interval_us,
			.rtt_us = given->rtt_us,
			.losses = given->losses,
			.acked_sacked = given->delivered,
			.prior_in_flight = given->prior_in_flight,
			.is_app_limited = !given->limited,
			.is_ack_delayed = given->is_delayed,
		};

		tp->app_limited = !given->limited;
		twin.cong_control(sk(), tp->snd_una, 0, &rs);
	} else if (given->grows)
		twin.cong_avoid(sk(), tp->snd_una, given->delivered);
}

void test_event(u64 now_us, u32 event)
{
	clock_us = now_us;
	if (twin.cwnd_event)
		twin.cwnd_event(sk(), event);
}

/* The last segment left so long ago. */
void test_idle(u64 now_us, u64 idle_us)
{
	clock_us = now_us - idle_us;
	socket_of_test.lsndtime = tailback_jiffies();
	socket_of_test.app_limited = 1;
	clock_us = now_us;
	socket_of_test.tcp_mstamp = now_us;
}

void test_internals(struct quantity *out)
{
	if (&show)
		show(sk(), out);
}

u32 test_congestion(u64 now_us)
{
	clock_us = now_us;
	socket_of_test.prior_cwnd = socket_of_test.snd_cwnd;
	socket_of_test.snd_ssthresh = twin.ssthresh(sk());
	return socket_of_test.snd_ssthresh;
}

/* Segments marked lost by a timer. */
void test_lost(u32 segments)
{
	socket_of_test.lost += segments;
}

void test_state(u64 now_us, u32 state)
{
	clock_us = now_us;
	if (twin.set_state)
		twin.set_state(sk(), state);
	socket_of_test.inet_conn.icsk_ca_state = state;
}

void test_set_cwnd(u32 cwnd)
{
	socket_of_test.snd_cwnd = cwnd;
}

u32 test_cwnd(void)
{
	return socket_of_test.snd_cwnd;
}

u32 test_ssthresh(void)
{
	return socket_of_test.snd_ssthresh;
}
