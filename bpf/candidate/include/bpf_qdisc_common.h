/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What queue disciplines in BPF begin with, by the names of the kernel's own tests; written for tailback. */
#ifndef __BPF_QDISC_COMMON_H__
#define __BPF_QDISC_COMMON_H__

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define NET_XMIT_CN 2
#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL

/* Global variables that no file in user space can map, as locks and lists must be; those of one name lie together. */
#ifdef __bpf__
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
#else
#define private(name) __attribute__((aligned(8)))
#endif

extern u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 delta_ns) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;

#if defined(__bpf__) && __clang_major__ < 15
/* clang 14 forgets the tag of a struct's pointer unless a function before had one of the type. This one is not loaded. */
__attribute__((used)) static void tailback_tagged(struct sk_buff __kptr *skb)
{
}
#endif

static __always_inline struct qdisc_skb_cb *qdisc_skb_cb(const struct sk_buff *skb)
{
	return (struct qdisc_skb_cb *)skb->cb;
}

static __always_inline unsigned int qdisc_pkt_len(const struct sk_buff *skb)
{
	return qdisc_skb_cb(skb)->pkt_len;
}

#endif
