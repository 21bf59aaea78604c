// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// Map opens a map of the attached program by name and layout; nil if the program has none, for
// instance in another version of Weir.
func (a *Attachment) Map(want *ebpf.MapSpec) (*ebpf.Map, error) {
	fail := func(err error) (*ebpf.Map, error) {
		return nil, fmt.Errorf("open %s of %s: %w", want.Name, a.Name, err)
	}
	program, err := ebpf.NewProgramFromID(a.Program)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = program.Close() }()
	about, err := program.Info()
	if err != nil {
		return fail(err)
	}
	ids, _ := about.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return fail(err)
		}
		about, err := m.Info()
		if err == nil && about.Name == want.Name && m.Type() == want.Type && m.ValueSize() == want.ValueSize && m.MaxEntries() == want.MaxEntries {
			return m, nil
		}
		_ = m.Close()
	}
	return nil, nil
}
