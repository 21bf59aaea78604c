// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
)

// Key returns the key of one direction of a scope in the map of Configurations.
func Key(scope int, d Direction) uint32 { return uint32(2*scope) + uint32(d) }

// Grown reports whether this process has grown the data plane, so that its configurations are
// copies in another map.
func (p *DataPlane) Grown() bool { return p.grown }

// Configurations returns the map with the configuration of each limit. The caller closes it.
func (p *DataPlane) Configurations() (*ebpf.Map, error) {
	m, err := p.objects.LimitConfigs.Clone()
	if err != nil {
		return nil, fmt.Errorf("open configurations of limits: %w", err)
	}
	return m, nil
}

// Queues returns the map with the virtual queue of each limit, by the keys of Configurations. The
// caller closes it.
func (p *DataPlane) Queues() (*ebpf.Map, error) {
	m, err := p.objects.LimitStates.Clone()
	if err != nil {
		return nil, fmt.Errorf("open virtual queues of limits: %w", err)
	}
	return m, nil
}

// Configuration returns a limit as a value of the map of Configurations.
func Configuration(l Limit, d Direction) []byte {
	text, err := binary.Append(nil, binary.NativeEndian, l.config(d))
	if err != nil {
		panic(err) // the type has a fixed size
	}
	return text
}
