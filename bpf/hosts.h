/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Selects the run's own sockets: those in its namespaces. HOSTS is the number of namespaces. */
#pragma once

#ifdef HOSTS

/* The namespaces' numbers, set before the program is loaded, so that one compiled program works for any run. */
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

/* A twin's kernel name is unique to the run, so every socket that uses it belongs to the run. */
ALWAYS_INLINE bool is_ours(struct sock *sk)
{
	return sk != NULL;
}

#endif

#define FAMILY_V6 10

#ifdef TAILBACK_NATIVE
#define LAST_BITS(sk, v4, v6) ((sk)->__sk_common.v4)
#else
/* The last 32 bits of an IPv6 address, which are a flow's IPv4 address. Kernels without IPv6 lack the field. */
#define LAST_BITS(sk, v4, v6)                                                                              \
	((sk)->__sk_common.skc_family == FAMILY_V6 &&                                                      \
			 __builtin_preserve_field_info((sk)->__sk_common.v6, 2) ?                          \
		 (sk)->__sk_common.v6.in6_u.u6_addr32[3] :                                                 \
		 (sk)->__sk_common.v4)
#endif

ALWAYS_INLINE u32 local_of(struct sock *sk)
{
	return LAST_BITS(sk, skc_rcv_saddr, skc_v6_rcv_saddr);
}

ALWAYS_INLINE u32 remote_of(struct sock *sk)
{
	return LAST_BITS(sk, skc_daddr, skc_v6_daddr);
}

/* A flow's client has an address that ends in 1; the client's port identifies the connection at both ends. */
ALWAYS_INLINE bool is_client(u32 local)
{
	return local >> 24 == 1;
}

ALWAYS_INLINE u16 port_of(struct sock *sk)
{
	if (is_client(local_of(sk)))
		return sk->__sk_common.skc_num;
	return __builtin_bswap16(sk->__sk_common.skc_dport);
}
