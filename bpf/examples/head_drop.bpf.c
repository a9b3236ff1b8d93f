/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * First in, first out, which drops at the head: a packet that finds the queue full displaces the oldest one, so that its
 * sender learns of the drop sooner. An example of a queue discipline in one file, as people write them for the kernel.
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

struct waiting {
	struct sk_buff __kptr *skb;
	struct bpf_list_node node;
};

private(queue) struct bpf_spin_lock lock;
private(queue) struct bpf_list_head packets __contains(waiting, node);

/* The oldest packet, which the queue then holds no longer. */
static __always_inline struct sk_buff *oldest(struct Qdisc *sch)
{
	struct bpf_list_node *node;
	struct waiting *waiting;
	struct sk_buff *skb;

	bpf_spin_lock(&lock);
	node = bpf_list_pop_front(&packets);
	bpf_spin_unlock(&lock);
	if (!node)
		return NULL;
	waiting = container_of(node, struct waiting, node);
	skb = bpf_kptr_xchg(&waiting->skb, NULL);
	bpf_obj_drop(waiting);
	if (!skb)
		return NULL;
	sch->q.qlen--;
	sch->qstats.backlog -= qdisc_pkt_len(skb);
	return skb;
}

SEC("struct_ops")
int BPF_PROG(head_drop_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	u32 bytes = qdisc_pkt_len(skb);
	struct sk_buff *gone = NULL;
	struct waiting *waiting;

	waiting = bpf_obj_new(typeof(*waiting));
	if (!waiting) {
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	if (sch->q.qlen >= sch->limit) {
		gone = oldest(sch);
		if (gone) {
			sch->qstats.drops++;
			bpf_qdisc_skb_drop(gone, to_free);
		}
	}
	skb = bpf_kptr_xchg(&waiting->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	bpf_spin_lock(&lock);
	bpf_list_push_back(&packets, &waiting->node);
	bpf_spin_unlock(&lock);
	sch->q.qlen++;
	sch->qstats.backlog += bytes;
	return gone ? NET_XMIT_CN : NET_XMIT_SUCCESS;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(head_drop_dequeue, struct Qdisc *sch)
{
	struct sk_buff *skb = oldest(sch);

	if (skb)
		bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops")
int BPF_PROG(head_drop_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	sch->limit = LIMIT_PACKETS;
	return 0;
}

SEC("struct_ops")
void BPF_PROG(head_drop_reset, struct Qdisc *sch)
{
	struct sk_buff *skb;

	for (int i = 0; i < LIMIT_PACKETS; i++) {
		skb = oldest(sch);
		if (!skb)
			break;
		bpf_kfree_skb(skb);
	}
	sch->q.qlen = 0;
}

SEC("struct_ops")
void BPF_PROG(head_drop_destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops head_drop = {
	.enqueue = (void *)head_drop_enqueue,
	.dequeue = (void *)head_drop_dequeue,
	.init = (void *)head_drop_init,
	.reset = (void *)head_drop_reset,
	.destroy = (void *)head_drop_destroy,
	.id = "head_drop",
};
