/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* BPF_PROG of libbpf's header of this name; written for tailback. Both worlds hand the arguments over as an array of
 * words; BPF_PROG gives them their names and types back. */
#ifndef __BPF_TRACING_H__
#define __BPF_TRACING_H__

#define TAILBACK_WORDS0() words
#define TAILBACK_WORDS1(a) words, (void *)words[0]
#define TAILBACK_WORDS2(a, b) TAILBACK_WORDS1(a), (void *)words[1]
#define TAILBACK_WORDS3(a, b, c) TAILBACK_WORDS2(a, b), (void *)words[2]
#define TAILBACK_WORDS4(a, b, c, d) TAILBACK_WORDS3(a, b, c), (void *)words[3]
#define TAILBACK_WORDS5(a, b, c, d, e) TAILBACK_WORDS4(a, b, c, d), (void *)words[4]
#define TAILBACK_PICK(_, a, b, c, d, e, chosen, ...) chosen
#define TAILBACK_WORDS(args...)                                                                              \
	TAILBACK_PICK(_, ##args, TAILBACK_WORDS5, TAILBACK_WORDS4, TAILBACK_WORDS3, TAILBACK_WORDS2,         \
		      TAILBACK_WORDS1, TAILBACK_WORDS0)(args)

/* A word that is no pointer is one to the compiler until the call has its type. */
#define BPF_PROG(name, args...)                                                                              \
	name(unsigned long long *words);                                                                     \
	static __always_inline typeof(name(0)) name##_with_types(unsigned long long *words, ##args);         \
	typeof(name(0)) name(unsigned long long *words)                                                      \
	{                                                                                                    \
		_Pragma("GCC diagnostic push")                                                               \
		_Pragma("GCC diagnostic ignored \"-Wint-conversion\"")                                       \
		return name##_with_types(TAILBACK_WORDS(args));                                              \
		_Pragma("GCC diagnostic pop")                                                                \
	}                                                                                                    \
	static __always_inline typeof(name(0)) name##_with_types(unsigned long long *words, ##args)

#endif
