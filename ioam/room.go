// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/json"
	"fmt"

	"weir/internal/room"
	"weir/policy"
)

// Room puts IOAM under the spine: the section ioam of a policy, and the key ioam of its scopes. The
// zero value is ready to use.
type Room struct{}

// Name is "ioam".
func (Room) Name() string { return roomName }

// Grammar is the section and the key of a scope.
func (Room) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment.
func (Room) Decode(text []byte) (policy.Treatment, error) {
	t := &Treatment{}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("read IOAM treatment: %w", err)
	}
	return t, nil
}

// Mechanism says what puts options into a scope's packets, or sees to those of the node.
func (Room) Mechanism(b room.Bound) string {
	if b.Name == "" {
		return "BPF programs at the node's interfaces"
	}
	if b.Shadow {
		return "a BPF program at egress of devices, only counting"
	}
	return "a BPF program at egress of devices"
}

// Plane is the pinned data plane of a host.
func (Room) Plane(h room.Host) room.Plane { return &hostPlane{host: h} }

// Capabilities are what weir doctor tells of IOAM.
func (Room) Capabilities() []room.Capability {
	return []room.Capability{{Name: roomName, Mechanisms: []room.Mechanism{
		{Name: "BPF programs at TCX", Features: []string{"hooks/tcx", "bpf maps/ringbuf", "bpf maps/lpm_trie", "bpf maps/sk_storage"}},
		{Name: "BPF programs at clsact", Features: []string{"qdiscs/clsact", "classifiers/bpf", "bpf maps/ringbuf", "bpf maps/lpm_trie", "bpf maps/sk_storage"}},
	}}}
}
