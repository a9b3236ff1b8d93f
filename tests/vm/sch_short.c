// SPDX-License-Identifier: GPL-2.0
/* A FIFO of `most` packets, for the tests of queue disciplines in kernel modules. */
#include <linux/module.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

static int most = 20;
module_param(most, int, 0444);

static int short_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	if (sch->q.qlen < most)
		return qdisc_enqueue_tail(skb, sch);
	return qdisc_drop(skb, sch, to_free);
}

static int short_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	sch->limit = most;
	return 0;
}

static struct Qdisc_ops short_ops = {
	.id = "short",
	.enqueue = short_enqueue,
	.dequeue = qdisc_dequeue_head,
	.peek = qdisc_peek_head,
	.init = short_init,
	.reset = qdisc_reset_queue,
	.owner = THIS_MODULE,
};

static int __init short_start(void)
{
	return register_qdisc(&short_ops);
}

static void __exit short_end(void)
{
	unregister_qdisc(&short_ops);
}

module_init(short_start);
module_exit(short_end);
MODULE_LICENSE("GPL");
