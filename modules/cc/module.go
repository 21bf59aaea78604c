// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"strings"

	"weir/core/module"
	"weir/core/policy"
)

const moduleName = "cc"

// Module is the policy module for congestion controls: the keys congestion and downloads of a
// scope. The zero value is ready to use.
type Module struct {
	prefix string // of the names of Weir's own controls; "" is weir_
}

// Named returns the module with another prefix for the names of Weir's controls, at most 6 of a-z,
// 0-9 and _. Names are global: two engines on a host share controls of the same name.
func Named(prefix string) Module { return Module{prefix} }

// Name is "cc".
func (Module) Name() string { return moduleName }

// Grammar is the key of a scope.
func (Module) Grammar() policy.Grammar { return grammar() }

// Decode reads a Treatment from JSON.
func (Module) Decode(text []byte) (policy.Treatment, error) {
	return policy.DecodeTreatment[Treatment]("congestion control", text)
}

// Mechanism describes the mechanism and the match of sockets.
func (Module) Mechanism(b module.Bound) string {
	t := treatmentOf(b.Scope)
	_, own := algorithmOf(t.Control)
	var does []string
	switch {
	case b.Shadow:
		return "sock_ops, only counting"
	case own:
		does = append(does, "sets a struct_ops program")
	case t.Control != "":
		does = append(does, "sets a control of the kernel's")
	}
	if t.Downloads != "" {
		does = append(does, "bounds receive windows")
	}
	return "sock_ops " + strings.Join(does, " and ")
}

// Plane is the pinned data plane of a host.
func (r Module) Plane(h module.Host) module.Plane { return &hostPlane{h, r} }

// controlName returns a control's name for sockets, and the algorithm if it is one of Weir's.
func (r Module) controlName(control string) (name string, kind algorithm, own bool) {
	kind, own = algorithmOf(control)
	switch {
	case !own:
		return control, kind, false
	case r.prefix != "":
		return r.prefix + control, kind, true
	}
	return usualPrefix + control, kind, true
}

// Capabilities lists the capabilities for weir doctor.
func (Module) Capabilities() []module.Capability {
	one := func(name, mechanism string, features ...string) module.Capability {
		return module.Capability{Name: name, Mechanisms: []module.Mechanism{{Name: mechanism, Features: features}}}
	}
	return []module.Capability{
		one("cc", "struct_ops programs registered by a BPF link", "bpf/btf", "bpf/jit", "bpf programs/struct_ops", "hooks/congestion control in bpf"),
		one("downloads of scopes", "sock_ops programs that bound receive windows, by TCP's timestamps", "bpf/btf", "bpf/jit", "cgroups/cgroup v2",
			"bpf programs/sock_ops", "cgroups/sock_ops", "bpf maps/sk_storage", "bpf maps/lpm_trie"),
		one("cc of scopes", "sock_ops programs that set the control", "bpf/btf", "bpf/jit", "cgroups/cgroup v2", "bpf programs/sock_ops", "cgroups/sock_ops", "bpf maps/lpm_trie"),
	}
}
