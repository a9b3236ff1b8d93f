/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kernel's side of a queue discipline that is compiled natively for the simulator: packets, lists, trees, maps
 * and the functions that the kernel lends to BPF queues. crates/tailback-bpf/src/queue.rs calls what begins with tailback_queue_;
 * the records that cross have the layout of tailback.rs, the template of a queue in Rust.
 *
 * A library holds one queue: each link opens another copy, as it has another load of the program in a kernel.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "bpf_experimental.h"
#include "bpf_qdisc_common.h"

void *calloc(unsigned long count, unsigned long size);
void *realloc(void *what, unsigned long size);
void free(void *what);
int memcmp(const void *one, const void *other, unsigned long size);
int snprintf(char *text, unsigned long size, const char *format, ...);

/* Version of the interface, the same as in queue.rs. */
#define VERSION 1
/* Uptime at the start of a run; not zero, because many algorithms take a time of zero as "never". */
#define UP_NS 1000000000000ull
/* Number of later departures before the memory of a packet that left is reused. */
#define REST 4096
#define BUCKETS 1024
#define NONE ~0ull

/* Whether the source calls bpf_qdisc_watchdog_schedule; source.rs sets it. */
#ifndef TAILBACK_HOLDS_BACK
#define TAILBACK_HOLDS_BACK 0
#endif
/* A source may declare a property that the kernel does not ask for: "const bool tailback_reorders = true;". */
extern const bool tailback_reorders __attribute__((weak));

struct given {
	u64 number;
	u64 enqueued_ns;
	u32 flow;
	u32 bytes;
	u32 conversation;
	u8 ecn;
	u8 is_reverse;
};

struct deed {
	u64 number;
	u32 what;
};

/* Reasons of drops. */
enum { QUEUE_FULL = 1, OVERLIMIT = 2, AQM = 3 };

struct call {
	u64 now_ns;
	u64 held_bytes;
	u32 held_packets;
	u32 gives;
	u64 value;
	const struct deed *deeds;
	u64 deed_count;
	const char *fault;
};

/* Results of dequeue. */
enum { NOTHING = 0, PACKET = 1, WAIT = 2 };

struct packet {
	struct sk_buff skb;
	u64 number;
	u32 hash;
	bool is_gone;
	struct packet *next;
};

struct slab {
	struct slab *next;
	struct packet packets[REST];
};

struct object {
	u64 size;
	u64 words[];
};

struct entry {
	struct entry *next;
	void *map;
	/* The key; the value begins at the next multiple of 8. */
	u8 bytes[] __attribute__((aligned(8)));
};

enum place { ELSEWHERE, ENQUEUE, DEQUEUE };

static struct {
	struct Qdisc sch;
	const struct Qdisc_ops *ops;
	enum place place;
	u64 random;
	u64 now_ns;
	/* When the watchdog timer expires; NONE if it is not set. */
	u64 wakes_ns;
	u32 held;
	u64 offered;
	struct deed *deeds;
	u64 deed_count;
	u64 deed_room;
	const char *fault;
	char text[160];
	struct slab *slabs;
	/* Packets that left, in the order of their reuse. */
	struct packet *first_free;
	struct packet *last_free;
	u32 free_count;
	struct entry *entries[BUCKETS];
} of;

typedef u64 (*hook)(u64 *words);

static u64 call_hook(void *function, u64 a, u64 b, u64 c)
{
	u64 words[3] = { a, b, c };

	return ((hook)function)(words);
}

static void fail(const char *what)
{
	if (!of.fault)
		of.fault = what;
}

/* Helpers of every program. */

u64 bpf_ktime_get_ns(void)
{
	return UP_NS + of.now_ns;
}

u64 bpf_jiffies64(void)
{
	return bpf_ktime_get_ns() / 4000000;
}

/* Marsaglia's xorshift (2003) with a multiplication (Vigna 2016): the queue's own stream. */
u32 bpf_get_prandom_u32(void)
{
	u64 x = of.random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	of.random = x;
	return x * 2685821657736338717ull >> 32;
}

/* Packets. */

static struct packet *packet_of(struct sk_buff *skb)
{
	return container_of(skb, struct packet, skb);
}

static void set_free(struct packet *packet)
{
	packet->next = NULL;
	if (of.last_free)
		of.last_free->next = packet;
	else
		of.first_free = packet;
	of.last_free = packet;
	of.free_count++;
}

static struct packet *new_packet(void)
{
	struct packet *packet;

	if (of.free_count <= REST) {
		struct slab *slab = calloc(1, sizeof(*slab));

		if (!slab)
			return NULL;
		slab->next = of.slabs;
		of.slabs = slab;
		for (int i = 0; i < REST; i++)
			set_free(&slab->packets[i]);
	}
	packet = of.first_free;
	of.first_free = packet->next;
	of.free_count--;
	*packet = (struct packet){};
	return packet;
}

static void leave(struct packet *packet)
{
	if (packet->is_gone)
		return;
	packet->is_gone = true;
	of.held--;
	set_free(packet);
}

static void drop(struct sk_buff *skb)
{
	struct packet *packet = packet_of(skb);
	u32 why = of.place == DEQUEUE ? AQM : packet->number == of.offered ? QUEUE_FULL : OVERLIMIT;

	if (of.deed_count == of.deed_room) {
		of.deed_room = of.deed_room ? 2 * of.deed_room : 64;
		of.deeds = realloc(of.deeds, of.deed_room * sizeof(*of.deeds));
	}
	of.deeds[of.deed_count++] = (struct deed){ packet->number, why };
	leave(packet);
}

void bpf_kfree_skb(struct sk_buff *skb)
{
	drop(skb);
}

void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free)
{
	(void)to_free;
	if (of.place != ENQUEUE)
		fail("bpf_qdisc_skb_drop is for enqueue alone: elsewhere call bpf_kfree_skb");
	drop(skb);
}

u32 bpf_skb_get_hash(struct sk_buff *skb)
{
	return packet_of(skb)->hash;
}

void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 delta_ns)
{
	(void)sch;
	(void)delta_ns;
	of.wakes_ns = expire > UP_NS ? expire - UP_NS : 0;
}

void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb)
{
	(void)sch;
	(void)skb;
	if (of.place != DEQUEUE)
		fail("bpf_qdisc_bstats_update is for dequeue alone");
}

/* Objects. */

void *tailback_object(u64 size)
{
	struct object *object = calloc(1, sizeof(*object) + (size + 7) / 8 * 8);

	if (!object)
		return NULL;
	object->size = size;
	return object->words;
}

/* The packet at `pointer`, if there is one and it has not left. */
static struct packet *held_at(u64 pointer)
{
	for (struct slab *slab = of.slabs; slab; slab = slab->next) {
		u64 offset = pointer - (u64)slab->packets;

		if (offset < sizeof(slab->packets) && offset % sizeof(struct packet) == 0) {
			struct packet *packet = (struct packet *)pointer;

			return packet->is_gone ? NULL : packet;
		}
	}
	return NULL;
}

/* Frees an object and everything it owns. */
void bpf_obj_drop(void *words)
{
	struct object *object = container_of(words, struct object, words);

	for (u64 i = 0; i < object->size / 8; i++) {
		struct packet *packet = object->words[i] ? held_at(object->words[i]) : NULL;

		if (packet)
			drop(&packet->skb);
	}
	free(object);
}

/* Lists: a ring of nodes with the head in it. The third word of a node is its list. */

struct ring {
	struct ring *next;
	struct ring *last;
	void *list;
};

static int push(struct bpf_list_head *head, struct bpf_list_node *node, bool is_front)
{
	struct ring *list = (struct ring *)head;
	struct ring *new = (struct ring *)node;
	struct ring *after;

	if (!list->next)
		list->next = list->last = list;
	if (new->list) {
		fail("an object is put into a list while it is in one");
		return -22;
	}
	after = is_front ? list->next : list;
	new->list = list;
	new->next = after;
	new->last = after->last;
	after->last->next = new;
	after->last = new;
	return 0;
}

static struct bpf_list_node *pop(struct bpf_list_head *head, bool is_front)
{
	struct ring *list = (struct ring *)head;
	struct ring *node = is_front ? list->next : list->last;

	if (!node || node == list)
		return NULL;
	node->next->last = node->last;
	node->last->next = node->next;
	*node = (struct ring){};
	return (struct bpf_list_node *)node;
}

int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node)
{
	return push(head, node, true);
}

int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node)
{
	return push(head, node, false);
}

struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head)
{
	return pop(head, true);
}

struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head)
{
	return pop(head, false);
}

/*
 * Trees. The order is all that can be seen of one, so that any balance will do: here a parent ranks above its children by
 * a hash of their addresses (Seidel and Aragon's treap, 1996). The fourth word of a node is its tree.
 */

struct knot {
	struct knot *left;
	struct knot *right;
	struct knot *up;
	void *tree;
};

static u32 rank(const struct knot *knot)
{
	return (u64)knot * 0x9e3779b97f4a7c15ull >> 32;
}

/* The pointer in the tree that refers to the knot. */
static struct knot **hold_of(struct bpf_rb_root *root, struct knot *knot)
{
	if (!knot->up)
		return (struct knot **)root;
	return knot->up->left == knot ? &knot->up->left : &knot->up->right;
}

/* Rotates the knot above its parent. */
static void lift(struct bpf_rb_root *root, struct knot *knot)
{
	struct knot *parent = knot->up;
	bool is_left = parent->left == knot;
	struct knot **inner = is_left ? &knot->right : &knot->left;

	*hold_of(root, parent) = knot;
	*(is_left ? &parent->left : &parent->right) = *inner;
	if (*inner)
		(*inner)->up = parent;
	*inner = parent;
	knot->up = parent->up;
	parent->up = knot;
}

int bpf_rbtree_add(struct bpf_rb_root *root, struct bpf_rb_node *node,
		   bool(less)(struct bpf_rb_node *one, const struct bpf_rb_node *other))
{
	struct knot **at = (struct knot **)root;
	struct knot *new = (struct knot *)node;
	struct knot *up = NULL;

	if (new->tree) {
		fail("an object is put into a tree while it is in one");
		return -22;
	}
	while (*at) {
		up = *at;
		at = less(node, (struct bpf_rb_node *)up) ? &up->left : &up->right;
	}
	*at = new;
	*new = (struct knot){ .up = up, .tree = root };
	while (new->up && rank(new) > rank(new->up))
		lift(root, new);
	return 0;
}

struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	struct knot *gone = (struct knot *)node;

	if (gone->tree != root)
		return NULL;
	while (gone->left || gone->right) {
		bool is_left = gone->left && (!gone->right || rank(gone->left) > rank(gone->right));

		lift(root, is_left ? gone->left : gone->right);
	}
	*hold_of(root, gone) = NULL;
	*gone = (struct knot){};
	return node;
}

struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root)
{
	struct knot *knot = *(struct knot **)root;

	while (knot && knot->left)
		knot = knot->left;
	return (struct bpf_rb_node *)knot;
}

/* Maps. In the kernel all elements of an array exist; here each is created on first access. */

/* Fowler, Noll and Vo's FNV-1a. */
static u64 hashed(u64 from, const void *bytes, u32 size)
{
	for (u32 i = 0; i < size; i++)
		from = (from ^ ((const u8 *)bytes)[i]) * 0x100000001b3ull;
	return from;
}

static void *value_of(struct entry *entry, u32 key_size)
{
	return entry->bytes + (key_size + 7) / 8 * 8;
}

/* The link to the entry, or where it would be inserted. */
static struct entry **find(const struct tailback_map *map, const void *key)
{
	u64 hash = hashed(hashed(0xcbf29ce484222325ull, &map->map, 8), key, map->key_size);
	struct entry **at = &of.entries[hash % BUCKETS];

	while (*at && ((*at)->map != map->map || memcmp((*at)->bytes, key, map->key_size)))
		at = &(*at)->next;
	return at;
}

static struct entry *add(const struct tailback_map *map, const void *key, struct entry **at)
{
	struct entry *made = calloc(1, sizeof(*made) + (map->key_size + 7) / 8 * 8 + map->value_size + 8);

	if (!made)
		return NULL;
	made->map = map->map;
	__builtin_memcpy(made->bytes, key, map->key_size);
	*at = made;
	return made;
}

static u32 count(const struct tailback_map *map)
{
	u32 count = 0;

	for (int i = 0; i < BUCKETS; i++)
		for (struct entry *entry = of.entries[i]; entry; entry = entry->next)
			count += entry->map == map->map;
	return count;
}

static bool is_array(const struct tailback_map *map)
{
	if (map->type != BPF_MAP_TYPE_ARRAY && map->type != BPF_MAP_TYPE_HASH)
		fail("a map is of a type that there is not natively: take BPF_MAP_TYPE_ARRAY or BPF_MAP_TYPE_HASH");
	return map->type == BPF_MAP_TYPE_ARRAY;
}

void *tailback_map_lookup(const struct tailback_map *map, const void *key)
{
	struct entry **at = find(map, key);
	struct entry *found = *at;

	if (!found && is_array(map) && *(const u32 *)key < map->most)
		found = add(map, key, at);
	return found ? value_of(found, map->key_size) : NULL;
}

long tailback_map_update(const struct tailback_map *map, const void *key, const void *value, u64 flags)
{
	struct entry **at = find(map, key);
	struct entry *found = *at;

	if (is_array(map)) {
		if (flags == BPF_NOEXIST)
			return -17;
		if (*(const u32 *)key >= map->most)
			return -7;
	} else {
		if (found && flags == BPF_NOEXIST)
			return -17;
		if (!found && flags == BPF_EXIST)
			return -2;
		if (!found && count(map) >= map->most)
			return -7;
	}
	if (!found)
		found = add(map, key, at);
	if (!found)
		return -12;
	__builtin_memcpy(value_of(found, map->key_size), value, map->value_size);
	return 0;
}

long tailback_map_delete(const struct tailback_map *map, const void *key)
{
	struct entry **at = find(map, key);
	struct entry *gone = *at;

	if (is_array(map))
		return -22;
	if (!gone)
		return -2;
	*at = gone->next;
	free(gone);
	return 0;
}

/* Functions that the simulator calls. */

u32 tailback_queue_abi(void)
{
	return VERSION;
}

u64 tailback_queue_ops_size(void)
{
	return sizeof(struct Qdisc_ops);
}

/* Sets the library's struct; called before all other functions. */
void tailback_queue_ops(const struct Qdisc_ops *ops)
{
	of.ops = ops;
}

static void begin(struct call *call, enum place place)
{
	of.now_ns = call->now_ns;
	of.place = place;
	of.deed_count = 0;
	of.fault = NULL;
	if (of.wakes_ns <= of.now_ns)
		of.wakes_ns = NONE;
}

static void end(struct call *call)
{
	of.place = ELSEWHERE;
	if (of.sch.q.qlen != of.held) {
		snprintf(of.text, sizeof(of.text),
			 "sch->q.qlen is %u, and %u packets are held: count each that is kept, returned or dropped",
			 of.sch.q.qlen, of.held);
		fail(of.text);
	}
	call->deeds = of.deeds;
	call->deed_count = of.deed_count;
	call->fault = of.fault;
}

void *tailback_queue_new(const char *params, u64 seed, u64 rate_bps, const char **fault)
{
	int code;

	(void)params;
	(void)rate_bps;
	*fault = NULL;
	if (!of.ops->enqueue || !of.ops->dequeue || !of.ops->init || !of.ops->reset || !of.ops->destroy) {
		*fault = "its struct Qdisc_ops lacks a function: the kernel takes none without enqueue, dequeue, init, reset "
			 "and destroy";
		return NULL;
	}
	of.random = seed | 1;
	of.wakes_ns = NONE;
	of.fault = NULL;
	code = (int)call_hook(of.ops->init, (u64)&of.sch, 0, 0);
	if (code) {
		snprintf(of.text, sizeof(of.text), "its init returns %d", code);
		fail(of.text);
	}
	*fault = of.fault;
	return of.fault ? NULL : &of;
}

void tailback_queue_free(void *state)
{
	(void)state;
	of.place = ELSEWHERE;
	call_hook(of.ops->reset, (u64)&of.sch, 0, 0);
	call_hook(of.ops->destroy, (u64)&of.sch, 0, 0);
	while (of.slabs) {
		struct slab *next = of.slabs->next;

		free(of.slabs);
		of.slabs = next;
	}
	for (int i = 0; i < BUCKETS; i++)
		while (of.entries[i]) {
			struct entry *next = of.entries[i]->next;

			free(of.entries[i]);
			of.entries[i] = next;
		}
	free(of.deeds);
	of.deeds = NULL;
}

const char *tailback_queue_about(const char *params, u64 rate_bps, const char **fault)
{
	static char text[64];
	void *made = tailback_queue_new(params, 0, rate_bps, fault);

	if (!made)
		return NULL;
	tailback_queue_free(made);
	snprintf(text, sizeof(text), "reorders=%s\nholds_back=%s", &tailback_reorders && tailback_reorders ? "true" : "false",
		 TAILBACK_HOLDS_BACK ? "true" : "false");
	return text;
}

void tailback_queue_enqueue(void *state, const struct given *given, struct call *call)
{
	struct packet *packet = new_packet();
	u64 words[] = { given->flow, given->conversation, given->is_reverse };
	int code;

	(void)state;
	begin(call, ENQUEUE);
	if (!packet) {
		call->fault = "there is no memory for a packet";
		return;
	}
	packet->number = of.offered = given->number;
	packet->hash = (u32)(hashed(0xcbf29ce484222325ull, words, sizeof(words)) >> 16);
	packet->skb.len = given->bytes;
	qdisc_skb_cb(&packet->skb)->pkt_len = given->bytes;
	of.held++;
	code = (int)call_hook(of.ops->enqueue, (u64)&packet->skb, (u64)&of.sch, 0);
	if (code != NET_XMIT_SUCCESS && code != NET_XMIT_DROP && code != NET_XMIT_CN) {
		snprintf(of.text, sizeof(of.text), "enqueue returns %d: return NET_XMIT_SUCCESS, NET_XMIT_DROP or NET_XMIT_CN",
			 code);
		fail(of.text);
	} else if (code == NET_XMIT_DROP && !packet->is_gone) {
		fail("enqueue returns NET_XMIT_DROP and keeps the packet: give it to bpf_qdisc_skb_drop");
	}
	end(call);
}

void tailback_queue_dequeue(void *state, struct call *call)
{
	struct sk_buff *skb;

	(void)state;
	begin(call, DEQUEUE);
	of.offered = NONE;
	skb = (struct sk_buff *)call_hook(of.ops->dequeue, (u64)&of.sch, 0, 0);
	if (skb) {
		call->gives = PACKET;
		call->value = packet_of(skb)->number;
		leave(packet_of(skb));
	} else if (of.wakes_ns != NONE) {
		/* A watchdog time in the past expires at once. */
		call->gives = WAIT;
		call->value = of.wakes_ns > of.now_ns ? of.wakes_ns : of.now_ns + 1;
	}
	end(call);
}
