// SPDX-License-Identifier: GPL-2.0
/* A congestion control with a fixed window, the smallest that Linux accepts. */
#include <linux/module.h>
#include <net/tcp.h>

static int window = 20;
module_param(window, int, 0444);
MODULE_PARM_DESC(window, "segments in flight");

static u32 window_ssthresh(struct sock *sk)
{
	return window;
}

static void window_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_sk(sk)->snd_cwnd = window;
}

static u32 window_undo(struct sock *sk)
{
	return window;
}

static struct tcp_congestion_ops window_ops = {
	.ssthresh = window_ssthresh,
	.cong_avoid = window_cong_avoid,
	.undo_cwnd = window_undo,
	.owner = THIS_MODULE,
	.name = "window",
};

static int __init window_init(void)
{
	return tcp_register_congestion_control(&window_ops);
}

static void __exit window_exit(void)
{
	tcp_unregister_congestion_control(&window_ops);
}

module_init(window_init);
module_exit(window_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Fixed window");
