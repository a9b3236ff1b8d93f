/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reading fields by CO-RE: the names of libbpf's header of this name that a congestion control needs; written for
 * tailback. */
#ifndef __BPF_CORE_READ_H__
#define __BPF_CORE_READ_H__

#ifdef __bpf__
/* A bit field's place differs from kernel to kernel: its offset, size and shifts are relocated. */
#define BPF_CORE_READ_BITFIELD(of, field)                                                                    \
	({                                                                                                   \
		const void *place = (const void *)(of) + __builtin_preserve_field_info((of)->field, 0);      \
		unsigned long long bits = 0;                                                                 \
		asm volatile("" : "+r"(place));                                                              \
		switch (__builtin_preserve_field_info((of)->field, 1)) {                                     \
		case 1:                                                                                      \
			bits = *(const __u8 *)place;                                                         \
			break;                                                                               \
		case 2:                                                                                      \
			bits = *(const __u16 *)place;                                                        \
			break;                                                                               \
		case 4:                                                                                      \
			bits = *(const __u32 *)place;                                                        \
			break;                                                                               \
		case 8:                                                                                      \
			bits = *(const __u64 *)place;                                                        \
			break;                                                                               \
		}                                                                                            \
		bits <<= __builtin_preserve_field_info((of)->field, 4);                                      \
		bits >>= __builtin_preserve_field_info((of)->field, 5);                                      \
		bits;                                                                                        \
	})
#else
#define BPF_CORE_READ_BITFIELD(of, field) ((of)->field)
#endif
#define BPF_CORE_READ(of, field) ((of)->field)

#endif
