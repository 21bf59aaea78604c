/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each processor remembers of interfaces and namespaces until the settings change. Which of
 * them is asked for follows from packets, so that what is not the node's is remembered as well.
 */
#ifndef WEIR_IOAM_KNOWN_H
#define WEIR_IOAM_KNOWN_H

/* Forgets everything. */
__attribute__((noinline)) int forget(void)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();

	if (!w || !node)
		return 0;
	__builtin_memset(w->near, 0, sizeof(w->near));
	__builtin_memset(w->space, 0, sizeof(w->space));
	for (int i = 0; i < KNOWN; i++)
		w->known[i].is = 0;
	w->generation = node->generation;
	return 0;
}

__attribute__((noinline)) int learn_interface(__u32 index)
{
	struct ioam_interface *dev = bpf_map_lookup_elem(&ioam_interfaces, &index);
	struct ioam_work *w = work();
	struct ioam_near *n;

	if (!w)
		return 0;
	n = &w->near[below(NEAR, index)];
	n->index = index;
	n->is = !!dev;
	n->id = dev ? dev->id : 0xffff;
	n->wide = dev ? dev->wide : ~0U;
	n->roles = dev ? dev->roles : 0;
	n->mtu = dev ? dev->mtu : 0;
	n->l2 = dev ? dev->l2 : 0;
	return 0;
}

__attribute__((noinline)) int learn_namespace(__u32 id)
{
	struct ioam_namespace *ns = bpf_map_lookup_elem(&ioam_namespaces, &id);
	struct ioam_work *w = work();
	struct ioam_space *s;

	if (!w)
		return 0;
	s = &w->space[below(SPACES, id)];
	s->key = id + 1;
	s->is = !!ns;
	if (!ns)
		return 0;
	s->flags = ns->flags;
	s->data = ns->data;
	s->schema = ns->schema;
	s->opaque = ns->opaque;
	s->wide_data = ns->wide_data;
	return 0;
}

/* This processor's memory, in which nothing is older than the settings. */
static __always_inline struct ioam_work *work_of(const struct ioam_settings *node)
{
	struct ioam_work *w = work();

	if (w && w->generation != node->generation)
		forget();
	return w;
}

static __always_inline struct ioam_near *near(struct ioam_work *w, __u32 index)
{
	struct ioam_near *n = &w->near[below(NEAR, index)];

	if (n->index != index)
		learn_interface(index);
	return n;
}

static __always_inline struct ioam_space *space(struct ioam_work *w, __u32 id)
{
	struct ioam_space *s = &w->space[below(SPACES, id)];

	if (s->key != id + 1)
		learn_namespace(id);
	return s;
}

#endif /* WEIR_IOAM_KNOWN_H */
