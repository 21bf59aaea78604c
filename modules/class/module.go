// SPDX-License-Identifier: Apache-2.0

package class

import (
	"fmt"

	"weir/core/module"
	"weir/core/policy"
)

// Module is the policy module for classes: the key class of a scope. The zero value is ready to
// use.
type Module struct{}

// Name is "class".
func (Module) Name() string { return moduleName }

// Grammar is the key of a scope.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("class", text)
}

// Mechanism describes the marking of a scope.
func (Module) Mechanism(b module.Bound) string {
	if b.Shadow {
		return "a program at every device's egress, only counting"
	}
	t := treatmentOf(b.Scope)
	if len(t.Asked) > 0 {
		return "a program at every device's ingress remembers how each flow asks, and one at egress marks with that"
	}
	return fmt.Sprintf("a program at every device's egress marks with DSCP %d", t.DSCP)
}

// Plane is the pinned data plane of a host.
func (Module) Plane(h module.Host) module.Plane { return &hostPlane{h} }

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	return []module.Capability{{Name: "class", Mechanisms: []module.Mechanism{
		{Name: "marks by a program at every device's egress (TCX)", Features: []string{"bpf programs/sched_cls", "hooks/tcx", "bpf maps/lpm_trie"}},
		{Name: "marks by a program at every device's egress (clsact)", Features: []string{"bpf programs/sched_cls", "qdiscs/clsact", "classifiers/bpf", "bpf maps/lpm_trie"}},
	}}}
}
