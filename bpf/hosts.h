/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Whose sockets are ours: those in the run's own namespaces. HOSTS: how many there are. */
#pragma once

#ifdef HOSTS

/* The namespaces' numbers, filled in before the program is loaded: a program compiled elsewhere serves any of them. */
const volatile u32 ours[HOSTS] SEC(".rodata.ours") = {};

ALWAYS_INLINE bool is_ours(struct sock *sk)
{
	u32 inum = sk->__sk_common.skc_net.net->ns.inum;

	for (u32 i = 0; i < HOSTS; i++)
		if (ours[i] == inum)
			return true;
	return false;
}

#else

/* A twin's name in the kernel is the run's own, and so are its sockets. */
ALWAYS_INLINE bool is_ours(struct sock *sk)
{
	return sk != NULL;
}

#endif

/* A flow's client has an address that ends in 1; the client's port names the connection at both ends. */
ALWAYS_INLINE bool is_client(u32 local)
{
	return local >> 24 == 1;
}

ALWAYS_INLINE u16 port_of(struct sock *sk)
{
	if (is_client(sk->__sk_common.skc_rcv_saddr))
		return sk->__sk_common.skc_num;
	return __builtin_bswap16(sk->__sk_common.skc_dport);
}
