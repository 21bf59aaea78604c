// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"weir/core/match"
	"weir/kernel/sockdiag"
)

// FindEscapes fills in the sockets that escape each scope of a cgroup or unit. It reads the open
// files of the processes in these cgroups and queries each of their network namespaces once. If the
// kernel does not report cgroups, the error is sockdiag.ErrNoCgroups and the status stays
// unchanged.
func (e *Engine) FindEscapes(status *Status) error {
	have, err := e.store().read(current)
	if err != nil {
		return err
	}
	groups := map[string][]match.Key{}
	for _, h := range have.Scopes {
		if h.Bound.Kind == match.Cgroup && len(h.Treatments) > 0 {
			groups[h.Name] = h.Bound.Keys()
		}
	}
	if len(groups) == 0 {
		return nil
	}
	snapshot, err := sockdiag.TakeSnapshot()
	if err != nil {
		return err
	}
	found := map[string][]sockdiag.Escape{}
	for name, keys := range groups {
		found[name] = nil
		for _, key := range keys {
			escaped, err := snapshot.Escaped(key.Number)
			if err != nil {
				return fmt.Errorf("scope %s: %w", name, err)
			}
			found[name] = append(found[name], escaped...)
		}
	}
	for i := range status.Scopes {
		if escaped, looked := found[status.Scopes[i].Name]; looked {
			status.Scopes[i].Escaped = append([]sockdiag.Escape{}, escaped...)
		}
	}
	return nil
}
