// SPDX-License-Identifier: Apache-2.0

package device

import "weir/kernel/netns"

// ReplaceIn and RestoreIn call step before each change.
func (r Record) ReplaceIn(ns *netns.Namespace, t Tree, step func()) error {
	return r.replace(ns, t, step)
}
func (r Record) RestoreIn(ns *netns.Namespace, step func()) error { return r.restore(ns, step) }
