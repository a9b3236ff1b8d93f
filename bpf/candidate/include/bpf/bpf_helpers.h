/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The names of libbpf's header of this name that a congestion control or queue needs; written for tailback. In the kernel the
 * helpers are called by number, natively the harness has them (../../native.c, ../../native_qdisc.c).
 */
#ifndef __BPF_HELPERS__
#define __BPF_HELPERS__

#define SEC(name) __attribute__((section(name), used))
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#ifndef __weak
#define __weak __attribute__((weak))
#endif
#define __hidden __attribute__((visibility("hidden")))
#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef container_of
#define container_of(of, type, member) ((type *)((char *)(of) - offsetof(type, member)))
#endif

/* A map's declaration says its numbers and types as types of pointers. */
#define __uint(name, number) int (*name)[number]
#define __type(name, type) typeof(type) *name

#ifdef __bpf__

#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))
#define __kptr __attribute__((btf_type_tag("kptr")))
#define TAILBACK_HELPER(result, name, number, ...) \
	static result (*const name)(__VA_ARGS__) __attribute__((unused)) = (void *)number

TAILBACK_HELPER(void *, bpf_map_lookup_elem, 1, void *map, const void *key);
TAILBACK_HELPER(long, bpf_map_update_elem, 2, void *map, const void *key, const void *value, __u64 flags);
TAILBACK_HELPER(long, bpf_map_delete_elem, 3, void *map, const void *key);
TAILBACK_HELPER(__u64, bpf_ktime_get_ns, 5, void);
TAILBACK_HELPER(__u32, bpf_get_prandom_u32, 7, void);
TAILBACK_HELPER(long, bpf_spin_lock, 93, struct bpf_spin_lock *lock);
TAILBACK_HELPER(long, bpf_spin_unlock, 94, struct bpf_spin_lock *lock);
TAILBACK_HELPER(void *, bpf_sk_storage_get, 107, void *map, void *sk, void *value, __u64 flags);
TAILBACK_HELPER(long, bpf_sk_storage_delete, 108, void *map, void *sk);
TAILBACK_HELPER(__u64, bpf_jiffies64, 118, void);
TAILBACK_HELPER(void *, bpf_kptr_xchg, 194, void *place, void *pointer);
TAILBACK_HELPER(long, bpf_trace_printk, 6, const char *format, __u32 size, ...);
#define bpf_printk(format, args...)                                             \
	({                                                                      \
		char text[] = format;                                           \
		bpf_trace_printk(text, sizeof(text), ##args);                   \
	})

#else

#define __ksym
#define __kconfig
#define __kptr

__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_prandom_u32(void);
__u64 bpf_jiffies64(void);
void *tailback_storage(void *map, __u64 size, void *sk, void *value, __u64 flags);
long bpf_sk_storage_delete(void *map, void *sk);
#define bpf_sk_storage_get(map, sk, initial, flags) \
	tailback_storage(map, sizeof(*(map)->value), sk, initial, flags)
#define bpf_printk(format, args...) ((void)0)

/* A run has one thread. */
static inline long bpf_spin_lock(struct bpf_spin_lock *lock)
{
	return lock->val = 0;
}
#define bpf_spin_unlock bpf_spin_lock

static inline void *tailback_exchange(void *place, void *pointer)
{
	void *before = *(void **)place;

	*(void **)place = pointer;
	return before;
}
#define bpf_kptr_xchg(place, pointer) tailback_exchange(place, pointer)

/* A map as the harness knows it: what stands in its declaration. */
struct tailback_map {
	void *map;
	__u32 type, key_size, value_size, most;
};
#define TAILBACK_MAP(of)                                                                                     \
	&(struct tailback_map)                                                                               \
	{                                                                                                    \
		of, sizeof(*(of)->type) / sizeof(int), sizeof(*(of)->key), sizeof(*(of)->value),             \
			sizeof(*(of)->max_entries) / sizeof(int)                                             \
	}
void *tailback_map_lookup(const struct tailback_map *map, const void *key);
long tailback_map_update(const struct tailback_map *map, const void *key, const void *value, __u64 flags);
long tailback_map_delete(const struct tailback_map *map, const void *key);
#define bpf_map_lookup_elem(map, key) tailback_map_lookup(TAILBACK_MAP(map), key)
#define bpf_map_update_elem(map, key, value, flags) tailback_map_update(TAILBACK_MAP(map), key, value, flags)
#define bpf_map_delete_elem(map, key) tailback_map_delete(TAILBACK_MAP(map), key)

#endif
#endif
