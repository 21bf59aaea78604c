/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Per-CPU cache of interfaces and namespaces, valid until the settings change. Packets determine
 * the keys, so the cache holds absent entries too.
 */
#ifndef WEIR_IOAM_CACHE_H
#define WEIR_IOAM_CACHE_H

#include "maps.h"

/* Clears the cache. */
__attribute__((noinline)) int clear_cache(void)
{
	struct ioam_settings *node = settings();
	struct ioam_work *w = work();

	if (!w || !node)
		return 0;
	__builtin_memset(w->interfaces, 0, sizeof(w->interfaces));
	__builtin_memset(w->namespaces, 0, sizeof(w->namespaces));
	for (int i = 0; i < CACHED_SCOPES; i++)
		w->scopes[i].valid = 0;
	w->generation = node->generation;
	return 0;
}

__attribute__((noinline)) int cache_interface(__u32 index)
{
	struct ioam_interface *dev = bpf_map_lookup_elem(&ioam_interfaces, &index);
	struct ioam_work *w = work();
	struct ioam_cached_interface *n;

	if (!w)
		return 0;
	n = &w->interfaces[bounded(CACHED_INTERFACES, index)];
	n->index = index;
	n->configured = !!dev;
	n->id = dev ? dev->id : 0xffff;
	n->wide = dev ? dev->wide : ~0U;
	n->roles = dev ? dev->roles : 0;
	n->mtu = dev ? dev->mtu : 0;
	n->l2 = dev ? dev->l2 : 0;
	return 0;
}

__attribute__((noinline)) int cache_namespace(__u32 id)
{
	struct ioam_namespace *ns = bpf_map_lookup_elem(&ioam_namespaces, &id);
	struct ioam_work *w = work();
	struct ioam_cached_namespace *s;

	if (!w)
		return 0;
	s = &w->namespaces[bounded(CACHED_NAMESPACES, id)];
	s->key = id + 1;
	s->configured = !!ns;
	if (!ns)
		return 0;
	s->flags = ns->flags;
	s->data = ns->data;
	s->schema = ns->schema;
	s->opaque = ns->opaque;
	s->wide_data = ns->wide_data;
	return 0;
}

/* Per-CPU state with a cache of the current settings. */
static __always_inline struct ioam_work *current_work(const struct ioam_settings *node)
{
	struct ioam_work *w = work();

	if (w && w->generation != node->generation)
		clear_cache();
	return w;
}

static __always_inline struct ioam_cached_interface *lookup_interface(struct ioam_work *w, __u32 index)
{
	struct ioam_cached_interface *n = &w->interfaces[bounded(CACHED_INTERFACES, index)];

	if (n->index != index)
		cache_interface(index);
	return n;
}

static __always_inline struct ioam_cached_namespace *lookup_namespace(struct ioam_work *w, __u32 id)
{
	struct ioam_cached_namespace *s = &w->namespaces[bounded(CACHED_NAMESPACES, id)];

	if (s->key != id + 1)
		cache_namespace(id);
	return s;
}

#endif /* WEIR_IOAM_CACHE_H */
