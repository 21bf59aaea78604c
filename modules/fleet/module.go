// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"weir/core/module"
	"weir/core/policy"
)

// Module is the policy module for fleets: the section fleet. The zero value is ready to use.
type Module struct{}

// Name is "fleet".
func (Module) Name() string { return moduleName }

// Grammar is the section.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("fleet", text)
}

// Mechanism names the transport of grants.
func (Module) Mechanism(module.Bound) string { return "grants over NATS, set by the daemon" }

// Plane is the membership of a host.
func (Module) Plane(h module.Host) module.Plane { return &plane{h} }

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	return []module.Capability{{Name: "limits shared by hosts", Mechanisms: []module.Mechanism{
		{Name: "rates with a lease that a BPF timer ends", Features: []string{"bpf programs/sched_cls", "bpf/jit"}},
	}}}
}
