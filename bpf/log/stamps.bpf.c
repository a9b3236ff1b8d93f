/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records when packets pass between the hosts' devices and the emulator, by the kernel's clock, like a capture card on
 * each cable. The emulator reads both rings as memory, without a system call.
 *
 * Source of the places: the kernel's tracepoints net:net_dev_start_xmit (a host sends) and
 * net:netif_receive_skb_entry (a host has received).
 * ROOM: places in a ring, a power of two; HOSTS: how many hosts.
 */

enum { SENT = 0, RECEIVED = 1 };

/* The layout that src/stamps.rs reads. */
struct stamp {
	u64 ns;
	u32 key;
	u32 length;
	/* Sequence number from one, written last: it shows a reader that the other fields are this packet's, not those of the
	 * packet that used this entry before. */
	u64 number;
	u64 spare;
};

struct count {
	u64 stamps;
	/* One cache line per counter, because two processors may count at once. */
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

/* The loopback device always has index 1; its packets are not on the path. */
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
	/* Count before reading the clock: a packet not counted yet will have a later time than any clock reading so far. */
	u64 number = __sync_fetch_and_add(&count->stamps, 1);
	u32 place = ring * ROOM + (number & (ROOM - 1));
	struct stamp *stamp = map_lookup_elem(&stamps, &place);

	if (!stamp)
		return;
	if (direction == SENT) {
		/* The key combines the IP identification, the destination, and TCP's sequence number or UDP's length
		 * and checksum: enough to match a stamp to its packet. */
		u32 words[7] = {};

		probe_read_kernel(words, sizeof(words), skb->data);
		stamp->key = words[1] ^ words[4] ^ words[6];
		if ((words[0] & 0xf0) == 0x60) {
			/* For IPv6: the end of the destination, and the same fields of TCP or UDP. */
			u32 more[3] = {};

			probe_read_kernel(more, sizeof(more), skb->data + 36);
			stamp->key = words[1] ^ more[0] ^ more[2];
		}
		stamp->length = skb->len;
	}
	stamp->ns = ktime_get_ns();
	/* An atomic exchange, which is ordered after the writes above. */
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
