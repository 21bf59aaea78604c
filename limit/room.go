// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/json"
	"fmt"

	"weir/internal/match"
	"weir/internal/room"
	"weir/policy"
)

const roomName = "limit"

// Room puts limits under the spine: the keys egress, ingress and loopback of a policy's scopes. The
// zero value is ready to use.
type Room struct{}

// Name is "limit".
func (Room) Name() string { return roomName }

// Grammar is the keys of a scope.
func (Room) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment.
func (Room) Decode(text []byte) (policy.Treatment, error) {
	t := &Treatment{}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	return t, nil
}

// Mechanism says by what a scope is held to its limits.
func (Room) Mechanism(b room.Bound) string {
	switch t := treatmentOf(b.Scope); {
	case b.Shadow:
		return "cgroup_skb, only counting"
	case t.Egress != nil:
		return "cgroup_skb, TCP paced by sock_ops"
	}
	return "cgroup_skb"
}

// Plane is the pinned data plane of a host.
func (Room) Plane(h room.Host) room.Plane { return &hostPlane{h} }

// Capabilities are what weir doctor tells of limits.
func (Room) Capabilities() []room.Capability {
	both := []string{"cgroups/cgroup v2", "bpf programs/cgroup_skb", "bpf maps/sk_storage", "bpf maps/lpm_trie"}
	one := func(name, mechanism string, features ...string) room.Capability {
		return room.Capability{Name: name, Mechanisms: []room.Mechanism{{Name: mechanism, Features: append(append([]string{}, both...), features...)}}}
	}
	adoption := one("limit open connections", "an iter/tcp program has them paced", "hooks/iter/tcp")
	adoption.Optional, adoption.Without = "they are limited, and only not paced, until they close; %s to pace them", "iter/tcp"
	return []room.Capability{
		one("limit egress", "cgroup_skb programs that pace TCP through sock_ops", "cgroups/cgroup_skb egress", "bpf programs/sock_ops", "cgroups/sock_ops"),
		one("limit ingress", "cgroup_skb programs that mark and drop", "cgroups/cgroup_skb ingress"),
		adoption,
	}
}

// assignments are what scopes stand for, as the data plane takes it; those that wait, and groups,
// stand for nothing.
type assignments struct{ match.Assignments }

func (a *assignments) add(b room.Bound) {
	if b.Binding.Kind == "" || b.Binding.Missing != "" {
		return
	}
	if a.Assignments == nil {
		a.Assignments = match.Assignments{}
	}
	a.Assignments[b.Binding.Key] = b.Index
}
