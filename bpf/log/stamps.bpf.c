/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * When packets pass between the hosts' devices and the emulator, by the kernel's own clock: what a capture card on
 * each cable would write down. The emulator reads both rings as memory, so a look costs it no call.
 *
 * Source of the places: the kernel's tracepoints net:net_dev_start_xmit (a host sends) and
 * net:netif_receive_skb_entry (a host has received).
 * ROOM: places in a ring, a power of two; HOSTS: how many hosts.
 */

enum { SENT = 0, RECEIVED = 1 };

/* As src/stamps.rs reads it. */
struct stamp {
	u64 ns;
	u32 key;
	u32 length;
	/* Its place in the order, from one: written last, so a reader knows that the rest is this packet's and not that of
	 * the one a ring ago. */
	u64 number;
	u64 spare;
};

struct count {
	u64 stamps;
	/* A cache line each: two processors may count at once. */
	u64 spare[7];
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	u32 *key;
	struct stamp *value;
	int (*max_entries)[2 * HOSTS * ROOM];
	int (*map_flags)[1 << 10]; /* BPF_F_MMAPABLE */
} stamps SEC(".maps");

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	u32 *key;
	struct count *value;
	int (*max_entries)[2 * HOSTS];
	int (*map_flags)[1 << 10]; /* BPF_F_MMAPABLE */
} counts SEC(".maps");

static u64 (*const ktime_get_ns)(void) = (void *)5;
static void *(*const map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

/* The loopback device is always the first; what passes there is not on the path. */
#define LOOPBACK 1

ALWAYS_INLINE void note(struct sk_buff *skb, u32 direction)
{
	struct net_device *dev = skb->dev;
	u32 inum = dev->nd_net.net->ns.inum;
	u32 ring = 2 * HOSTS;

	if (dev->ifindex == LOOPBACK)
		return;
	for (u32 i = 0; i < HOSTS; i++)
		if (ours[i] == inum)
			ring = 2 * i + direction;
	struct count *count = map_lookup_elem(&counts, &ring);

	if (!count)
		return;
	/* Counted before the clock is read: a packet that is not counted yet is sent later than any clock was read. */
	u64 number = __sync_fetch_and_add(&count->stamps, 1);
	u32 place = ring * ROOM + (number & (ROOM - 1));
	struct stamp *stamp = map_lookup_elem(&stamps, &place);

	if (!stamp)
		return;
	if (direction == SENT) {
		/* Of the IP header and what follows: identification, destination, and TCP's sequence number or
		 * UDP's length and sum. Enough to see that a stamp belongs to the packet at hand. */
		u32 words[7] = {};

		probe_read_kernel(words, sizeof(words), skb->data);
		stamp->key = words[1] ^ words[4] ^ words[6];
		if ((words[0] & 0xf0) == 0x60) {
			/* Behind IPv6's header: the end of the destination, and again what TCP or UDP has there. */
			u32 more[3] = {};

			probe_read_kernel(more, sizeof(more), skb->data + 36);
			stamp->key = words[1] ^ more[0] ^ more[2];
		}
		stamp->length = skb->len;
	}
	stamp->ns = ktime_get_ns();
	/* An exchange, because it is ordered after all of the above. */
	__sync_lock_test_and_set(&stamp->number, number + 1);
}

SEC("tp_btf/net_dev_start_xmit") int on_sent(u64 *context)
{
	note((void *)context[0], SENT);
	return 0;
}

SEC("tp_btf/netif_receive_skb_entry") int on_received(u64 *context)
{
	note((void *)context[0], RECEIVED);
	return 0;
}
