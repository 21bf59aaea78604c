// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"fmt"

	"weir/core/module"
	"weir/core/policy"
)

// Module is the policy module for borders: the section borders. The zero value is ready to use.
type Module struct{}

// Name is "borders".
func (Module) Name() string { return moduleName }

// Grammar is the section.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("borders", text)
}

// Mechanism describes the hooks of the classification.
func (Module) Mechanism(module.Bound) string { return "programs at the device" }

// Plane is the data plane of a host.
func (Module) Plane(h module.Host) module.Plane { return &hostPlane{h} }

// Lint warns of borders at missing devices.
func (Module) Lint(p *policy.Policy) (doubts []string) {
	all, err := devices()
	if err != nil {
		return nil
	}
	there := map[string]bool{}
	for _, d := range all {
		there[d.Name] = true
	}
	for _, item := range p.Host {
		if t, ok := item.Treatment.(*Treatment); ok && !there[t.Device] {
			doubts = append(doubts, fmt.Sprintf("borders.%s: there is no such device: the border waits for it", t.Device))
		}
	}
	return doubts
}

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	return []module.Capability{{Name: "classes at borders", Mechanisms: []module.Mechanism{
		{Name: "programs at the device's ingress and egress (TCX)", Features: []string{"bpf programs/sched_cls", "hooks/tcx", "bpf maps/lpm_trie"}},
		{Name: "programs at the device's ingress and egress (clsact)", Features: []string{"bpf programs/sched_cls", "qdiscs/clsact", "classifiers/bpf", "bpf maps/lpm_trie"}},
	}}}
}
