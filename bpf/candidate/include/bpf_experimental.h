/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Objects, lists and trees of BPF programs, by the names of the kernel's own tests; written for tailback. */
#ifndef __BPF_EXPERIMENTAL_H__
#define __BPF_EXPERIMENTAL_H__

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head) __ksym;
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __ksym;
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node) __ksym;

#ifdef __bpf__

/* A list's head, or a tree's root, says of what it is one: of objects `kind`, by their `node`. */
#define __contains(kind, node) __attribute__((btf_decl_tag("contains:" #kind ":" #node)))

extern void *bpf_obj_new_impl(__u64 type, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *object, void *meta) __ksym;
extern int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta,
				    __u64 offset) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta,
				   __u64 offset) __ksym;
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       bool(less)(struct bpf_rb_node *one, const struct bpf_rb_node *other), void *meta,
			       __u64 offset) __ksym;

/* The number of a type of the program's own (BPF_TYPE_ID_LOCAL). */
#define bpf_obj_new(type) ((type *)bpf_obj_new_impl(__builtin_btf_type_id(*(type *)0, 0), NULL))
#define bpf_obj_drop(object) bpf_obj_drop_impl(object, NULL)
#define bpf_list_push_front(head, node) bpf_list_push_front_impl(head, node, NULL, 0)
#define bpf_list_push_back(head, node) bpf_list_push_back_impl(head, node, NULL, 0)
#define bpf_rbtree_add(root, node, less) bpf_rbtree_add_impl(root, node, less, NULL, 0)

#else

#define __contains(kind, node)

void *tailback_object(__u64 size);
void bpf_obj_drop(void *object);
int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node);
int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node);
int bpf_rbtree_add(struct bpf_rb_root *root, struct bpf_rb_node *node,
		   bool(less)(struct bpf_rb_node *one, const struct bpf_rb_node *other));
#define bpf_obj_new(type) ((type *)tailback_object(sizeof(type)))

#endif
#endif
