// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/netns"
)

// Module is the policy module for offload: the section offload. The zero value is ready to use.
type Module struct {
	// Namespace is the router's; nil is the calling thread's own. Tests have others.
	Namespace *netns.Namespace
	// Lease replaces [Lease] in tests; 0 keeps it.
	Lease time.Duration
}

// Name is "offload".
func (Module) Name() string { return moduleName }

// Grammar is the section.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("offload", text)
}

// Mechanism describes the backend.
func (Module) Mechanism(b module.Bound) string {
	t, _ := b.Treatment.(*Treatment)
	if t == nil {
		return mechanisms[byXDP]
	}
	return mechanisms[t.Backend]
}

// Plane is the pinned data plane of a host.
func (r Module) Plane(h module.Host) module.Plane {
	return &hostPlane{h, r.Namespace, cmp.Or(r.Lease, Lease)}
}

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	return []module.Capability{{Name: "offload of routes", Mechanisms: []module.Mechanism{
		{Name: "XDP in the driver, with a table of its own", Features: []string{"bpf/jit", "hooks/xdp native on veth"}},
		{Name: "XDP above the driver, with a table of its own", Features: []string{"hooks/xdp generic"}},
	}}}
}
