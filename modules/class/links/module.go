// SPDX-License-Identifier: Apache-2.0

package links

import (
	"weir/core/module"
	"weir/core/policy"
)

// Module is the policy module for classes on links: the section links. The zero value is ready to
// use.
type Module struct{}

// Name is "links".
func (Module) Name() string { return moduleName }

// Grammar is the section.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("links", text)
}

// Mechanism describes the queues.
func (Module) Mechanism(module.Bound) string { return "HTB with a BPF classifier" }

// Plane is the data plane of a host.
func (Module) Plane(h module.Host) module.Plane { return &hostPlane{h} }

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	all := []string{"qdiscs/htb", "qdiscs/tbf", "classifiers/bpf", "bpf programs/sched_cls"}
	return []module.Capability{{Name: "classes on links", Mechanisms: []module.Mechanism{
		{Name: "HTB and a program, leaves of fq_codel with ECN", Features: append([]string{"qdiscs/fq_codel"}, all...)},
		{Name: "HTB and a program, leaves first in, first out", Features: all},
	}}}
}
