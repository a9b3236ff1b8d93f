/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A congestion control's own quantities, for the table `internals`: what INTERNALS shows, in the order and the units of
 * the Rust twin's internals(). With -DINTERNALS_WANTED it also becomes a program on the kernel's tracepoint tcp:tcp_probe:
 * a row for every segment that arrives on a socket of congestion control NAME, with the state before it is looked at.
 */
#pragma once

/* A ratio of two integers, because the kernel has no floating point. */
struct quantity {
	s64 value;
	s64 per;
};

/* The most quantities that a twin exports; the same as in src/internals.rs. */
#define QUANTITIES 5

/* A quantity without a value yet. */
#define MISSING 0

#define SHOW(place, number, divisor)                                                                       \
	do {                                                                                               \
		out[place].value = (number);                                                               \
		out[place].per = (divisor);                                                                \
	} while (0)

/* An instant on the twin's clock, which began before the run did. */
#define SHOW_INSTANT(place, number, divisor) SHOW(place, number, -(s64)(divisor))

#ifndef INTERNALS_WANTED

#ifdef TAILBACK_NATIVE
/* Not every twin has quantities. */
__attribute__((weak)) void show(struct sock *sk, struct quantity *out);
#define INTERNALS void show(struct sock *sk, struct quantity *out)
#else
#define INTERNALS ALWAYS_INLINE void show(struct sock *sk, struct quantity *out)
#endif

#else

/* The layout that src/internals.rs reads. */
struct shown {
	u64 ns;
	u32 local;
	u32 port;
	struct quantity quantities[QUANTITIES];
};

struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	int (*max_entries)[1 << 21];
} shown SEC(".maps");

static void *(*const ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static struct tcp_sock *(*const skc_to_tcp_sock)(void *sk) = (void *)137;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

/* No wake-up per row: the reader polls the ring. */
#define NO_WAKEUP 1

ALWAYS_INLINE bool has_name(struct tcp_sock *tp)
{
	char name[16] = {}, own[16] = NAME;

	if (probe_read_kernel(name, sizeof(name), tp->inet_conn.icsk_ca_ops->name))
		return false;
	for (u32 i = 0; i < sizeof(name); i++)
		if (name[i] != own[i])
			return false;
	return true;
}

ALWAYS_INLINE void show(struct sock *sk, struct quantity *out);

SEC("tp_btf/tcp_probe") int on_internals(u64 *context)
{
	struct sock *sk = (void *)context[0];
	struct tcp_sock *tp = skc_to_tcp_sock(sk);

	if (!tp || !is_ours(sk) || !has_name(tp))
		return 0;
	struct shown *row = ringbuf_reserve(&shown, sizeof(*row), 0);

	if (!row)
		return 0;
	for (u32 i = 0; i < QUANTITIES; i++) {
		row->quantities[i].value = 0;
		row->quantities[i].per = MISSING;
	}
	row->ns = ktime_get_ns();
	row->local = local_of(sk);
	row->port = port_of(sk);
	show((struct sock *)tp, row->quantities);
	ringbuf_submit(row, NO_WAKEUP);
	return 0;
}

#define INTERNALS ALWAYS_INLINE void show(struct sock *sk, struct quantity *out)

#endif
