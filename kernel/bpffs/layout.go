// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"sync"

	"github.com/cilium/ebpf"
)

// Layout holds the sizes of a map's keys and values, in bytes.
type Layout struct{ Key, Value uint32 }

// Of reports whether a map has the layout.
func (l Layout) Of(m *ebpf.Map) bool { return l.Key == m.KeySize() && l.Value == m.ValueSize() }

// Layouts returns the layouts of a compiled object's maps by name. It reads them once: reading
// takes milliseconds, and the daemon opens pinned maps for each request.
func Layouts(load func() (*ebpf.CollectionSpec, error)) func() (map[string]Layout, error) {
	return sync.OnceValues(func() (map[string]Layout, error) {
		spec, err := load()
		if err != nil {
			return nil, err
		}
		all := map[string]Layout{}
		for name, m := range spec.Maps {
			all[name] = Layout{m.KeySize, m.ValueSize}
		}
		return all, nil
	})
}
