/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The shortest packet first, and of one length the oldest: a call goes ahead of a transfer. An example of a queue that
 * keeps packets in a tree and reorders those of a connection; with SHORTEST = 0 it is first in, first out.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_qdisc_common.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#ifndef LIMIT_PACKETS
#define LIMIT_PACKETS 1000
#endif
#ifndef SHORTEST
#define SHORTEST 1
#endif
/* The simulator and the guest end a run in which packets of a connection leave in another order, unless this says so. */
const bool tailback_reorders = true;

struct item {
	struct sk_buff __kptr *skb;
	u64 key;
	struct bpf_rb_node node;
};
private(all) struct bpf_spin_lock lock;
private(all) struct bpf_rb_root root __contains(item, node);
u64 came;

static bool less(struct bpf_rb_node *one, const struct bpf_rb_node *other)
{
	return container_of(one, struct item, node)->key < container_of(other, struct item, node)->key;
}

static __always_inline struct sk_buff *first(struct Qdisc *sch)
{
	struct bpf_rb_node *node;
	struct sk_buff *skb;
	struct item *item;

	bpf_spin_lock(&lock);
	node = bpf_rbtree_first(&root);
	if (!node) {
		bpf_spin_unlock(&lock);
		return NULL;
	}
	node = bpf_rbtree_remove(&root, node);
	bpf_spin_unlock(&lock);
	if (!node)
		return NULL;
	item = container_of(node, struct item, node);
	skb = bpf_kptr_xchg(&item->skb, NULL);
	bpf_obj_drop(item);
	if (skb)
		sch->q.qlen--;
	return skb;
}

SEC("struct_ops")
int BPF_PROG(enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	struct item *item = sch->q.qlen < LIMIT_PACKETS ? bpf_obj_new(typeof(*item)) : NULL;

	if (!item) {
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	item->key = SHORTEST ? qdisc_pkt_len(skb) : came++;
	skb = bpf_kptr_xchg(&item->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	bpf_spin_lock(&lock);
	bpf_rbtree_add(&root, &item->node, less);
	bpf_spin_unlock(&lock);
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(dequeue, struct Qdisc *sch)
{
	struct sk_buff *skb = first(sch);

	if (skb)
		bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops")
int BPF_PROG(init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return 0;
}

SEC("struct_ops")
void BPF_PROG(reset, struct Qdisc *sch)
{
	struct sk_buff *skb;

	for (int i = 0; i < LIMIT_PACKETS; i++) {
		skb = first(sch);
		if (!skb)
			break;
		bpf_kfree_skb(skb);
	}
	sch->q.qlen = 0;
}

SEC("struct_ops")
void BPF_PROG(destroy, struct Qdisc *sch) {}

SEC(".struct_ops.link")
struct Qdisc_ops tree = {
	.enqueue = (void *)enqueue,
	.dequeue = (void *)dequeue,
	.init = (void *)init,
	.reset = (void *)reset,
	.destroy = (void *)destroy,
	.id = "tree",
};
