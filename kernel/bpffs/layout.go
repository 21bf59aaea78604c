// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"sync"

	"github.com/cilium/ebpf"
)

// Layout is how large a map's keys and values are, in octets.
type Layout struct{ Key, Value uint32 }

// Of says whether a map is laid out so.
func (l Layout) Of(m *ebpf.Map) bool { return l.Key == m.KeySize() && l.Value == m.ValueSize() }

// Layouts reads how the maps of a compiled object are laid out, by name, at the first call alone:
// it takes milliseconds, and a daemon opens pinned maps for every answer.
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
