//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Binds a scope to a new cgroup at its path before a process can join it. User space learns of the
 * cgroup milliseconds later, and packets sent until then would escape the limit.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char rebind_license[] SEC("license") = "Dual BSD/GPL";

enum rebind_bounds {
	REBIND_PATH = 256, /* bytes of a path with its terminator; longer paths never match */
};

/* A path below the root of the v2 hierarchy, padded with zeros. */
struct rebind_path {
	char path[REBIND_PATH];
};

struct rebind_scope {
	__u32 scope;
	__u32 unused;
	__u64 id; /* of the cgroup that the scope is bound to; 0 for none */
};

/* Paths of scopes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct rebind_path);
	__type(value, struct rebind_scope);
} rebind_paths SEC(".maps");

/* Cgroup id to scope: the data plane's own, of bpf/match.h. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} scope_cgroups SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};
#pragma clang attribute pop

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(rebind_cgroup, struct cgroup *group, const char *path)
{
	struct rebind_path key = {};
	struct rebind_scope *known;
	__u64 id = group->kn->id, before;

	if (group->root->hierarchy_id) /* of v1 */
		return 0;
	if (bpf_probe_read_kernel_str(key.path, sizeof(key.path), path) < 0)
		return 0;
	known = bpf_map_lookup_elem(&rebind_paths, &key);
	if (!known)
		return 0;
	before = known->id;
	known->id = id; /* first: an id in scope_cgroups must be known here */
	if (before)
		bpf_map_delete_elem(&scope_cgroups, &before);
	bpf_map_update_elem(&scope_cgroups, &id, &known->scope, BPF_ANY);
	return 0;
}
