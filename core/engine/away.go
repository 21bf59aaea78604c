// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"weir/core/policy"
	"weir/core/selector"
	"weir/kernel/cgroup"
)

// bindAway returns the binding of a scope while the service that resolves its selector is away: the
// existing cgroups of its last binding, so that a restart of the service ends no limit.
func (e *Engine) bindAway(was held, s policy.Selector, reason error) selector.Binding {
	if was.Selector != s {
		return selector.Binding{Missing: reason.Error()}
	}
	return was.Bound.Existing(rootOf(e), reason.Error())
}

// rootOf returns the root of the hierarchy, which paths of bindings are below.
func rootOf(e *Engine) string {
	root, err := cgroup.Root()
	if err != nil {
		return e.CgroupRoot
	}
	return root
}
