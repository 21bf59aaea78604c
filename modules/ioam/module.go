// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"weir/core/module"
	"weir/core/policy"
	"weir/modules/ioam/node"
)

// Module is the policy module for IOAM: the section ioam, and the key ioam of scopes. The zero
// value is ready to use.
type Module struct{}

// Name returns "ioam".
func (Module) Name() string { return node.Name }

// Grammar returns the keys of the section and of scopes.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[node.Treatment]("IOAM treatment", text)
}

// Mechanism describes the encapsulation of a scope, or the node.
func (Module) Mechanism(b module.Bound) string {
	if b.Name == "" {
		return "BPF programs at the node's interfaces"
	}
	if b.Shadow {
		return "a BPF program at egress of devices, only counting"
	}
	return "a BPF program at egress of devices"
}

// Plane returns the pinned data plane of a host.
func (Module) Plane(h module.Host) module.Plane { return node.NewPlane(h) }

// Columns declares the values of Report.
func (Module) Columns() module.Columns { return node.Columns() }

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	return []module.Capability{{Name: node.Name, Mechanisms: []module.Mechanism{
		{Name: "BPF programs at TCX", Features: []string{"hooks/tcx", "bpf maps/ringbuf", "bpf maps/lpm_trie", "bpf maps/sk_storage"}},
		{Name: "BPF programs at clsact", Features: []string{"qdiscs/clsact", "classifiers/bpf", "bpf maps/ringbuf", "bpf maps/lpm_trie", "bpf maps/sk_storage"}},
	}}}
}
