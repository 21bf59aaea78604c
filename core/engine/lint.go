// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
)

// lint returns warnings of probable mistakes in a policy on this host.
func (e *Engine) lint(p *policy.Policy, out Outcome) []string {
	warnings := shared(p, out.held)
	p = e.withDeviceNames(p)
	for _, r := range e.Modules {
		if doubter, lint := r.(module.Linter); lint {
			warnings = append(warnings, doubter.Lint(p)...)
		}
	}
	return append(warnings, e.misspelt(p, out)...)
}

// withDeviceNames returns a copy of a policy with the kernel's names of devices in items of the
// host.
func (e *Engine) withDeviceNames(p *policy.Policy) *policy.Policy {
	names, err := lookUpDevices(namesIn(nil, p.Host), nil)
	if err != nil || len(names.now) == 0 {
		return p
	}
	resolved := *p
	resolved.Host = slices.Clone(p.Host)
	for i, item := range resolved.Host {
		if namer, is := item.Treatment.(policy.DeviceNamer); is {
			resolved.Host[i].Treatment = namer.WithDeviceNames(names.resolve)
		}
	}
	return &resolved
}

// unsupported returns the *Unsupported in a tree of errors.
func unsupported(err error) (all []*module.Unsupported) {
	var found *module.Unsupported
	if several, is := err.(interface{ Unwrap() []error }); is {
		for _, one := range several.Unwrap() {
			all = append(all, unsupported(one)...)
		}
		return all
	}
	if errors.As(err, &found) {
		return []*module.Unsupported{found}
	}
	return nil
}

// shared warns of scopes with the same traffic on this host, such as a unit and its cgroup.
func shared(p *policy.Policy, all []held) (warnings []string) {
	first := map[selector.Binding]policy.Scope{}
	for _, h := range all {
		if h.Bound.Kind == "" {
			continue
		}
		if other, twice := first[h.Bound]; twice {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: %s matches the same traffic as scope %s, at %s; only the later one counts: keep one of the two",
				p.At(h.Name, h.Selector.Kind), h.Name, h.Selector, other.Name, p.At(other.Name, other.Selector.Kind)))
		}
		first[h.Bound] = h.Scope
	}
	return warnings
}

// maxHints bounds the search for similar names: a policy may wait for thousands of cgroups.
const maxHints = 20

// misspelt warns of waiting scopes with a name similar to an existing one.
func (e *Engine) misspelt(p *policy.Policy, out Outcome) (warnings []string) {
	look := e.Lookup()
	missing := 0
	for _, h := range out.held {
		if h.Bound.Missing == "" {
			continue
		}
		if missing++; missing > maxHints {
			break
		}
		if near := look.Near(h.Selector); near != "" {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: %s (did you mean %q?); the scope waits until it exists",
				p.At(h.Name, h.Selector.Kind), h.Name, h.Bound.Missing, near))
		}
	}
	return warnings
}
