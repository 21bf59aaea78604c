// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"encoding/json"
	"fmt"

	"weir/internal/kernel/netns"
	"weir/internal/room"
	"weir/policy"
)

// Room puts offload under the spine: the section offload of a policy's file. The zero value is
// ready to use.
type Room struct {
	// Namespace is the router's; nil is the calling thread's own. Tests have others.
	Namespace *netns.Namespace
}

// Name is "offload".
func (Room) Name() string { return roomName }

// Grammar is the section.
func (Room) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment.
func (Room) Decode(text []byte) (policy.Treatment, error) {
	t := &Treatment{}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("read offload: %w", err)
	}
	return t, nil
}

// Mechanism says what forwards in place of the kernel.
func (Room) Mechanism(b room.Bound) string {
	t, _ := b.Treatment.(*Treatment)
	if t == nil {
		return mechanisms[byXDP]
	}
	return mechanisms[t.Backend]
}

// Plane is the pinned data plane of a host.
func (r Room) Plane(h room.Host) room.Plane { return &hostPlane{h, r.Namespace} }

// Capabilities are what weir doctor tells of offload.
func (Room) Capabilities() []room.Capability {
	return []room.Capability{{Name: "offload of routes", Mechanisms: []room.Mechanism{
		{Name: "XDP in the driver, with a table of its own", Features: []string{"bpf/jit", "hooks/xdp native on veth"}},
		{Name: "XDP above the driver, with a table of its own", Features: []string{"hooks/xdp generic"}},
	}}}
}
