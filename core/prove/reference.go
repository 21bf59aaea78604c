// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"strings"

	"weir/core/module"
)

// Described is a word of the result and its meaning.
type Described struct{ Name, Meaning string }

// Verdicts describes the verdicts of checks.
func Verdicts() []Described {
	return []Described{
		{string(Holds), "what is promised is done"},
		{string(Under), "the scope gets less than it may have"},
		{string(Leaks), "it gets more, or traffic of it was not charged"},
		{string(Loses), "its rate is held by dropping more than users bear"},
		{string(Fails), "what is promised is not done, where that is not of a rate"},
		{string(CannotSay), "with the reason"},
		{string(Shadow), "the scope only counts"},
		{string(Members), "a group, whose members are measured one by one"},
	}
}

// States describes the states of bypasses.
func States() []Described {
	return []Described{
		{string(Covered), "it is charged"},
		{string(Escapes), "traffic takes it now"},
		{string(CanEscape), "it exists, and nothing was seen to take it"},
		{string(Slowed), "traffic that is exempt is held back all the same"},
		{string(NotApplicable), "there is no such traffic of this scope, or it is meant to be free"},
		{string(Unknown), "with the reason"},
	}
}

// Bypasses describes the tried and counted bypasses.
func Bypasses(modules []module.Module) (all []Described) {
	for _, b := range bypasses() {
		all = append(all, Described{b.name, b.how})
	}
	for _, r := range modules {
		for _, column := range r.Columns().Host {
			if column.Bypass != "" {
				all = append(all, Described{column.Bypass, "of `" + r.Name() + "`, for all scopes, as counted since it came: " + strings.TrimSuffix(column.Help, ".")})
			}
		}
	}
	all = append(all, Described{packetSocketsName, "for all scopes: frames that are sent past the kernel's stack are not charged; how many packet sockets are open"})
	for _, r := range modules {
		if t, tries := r.(module.Trier); tries {
			for _, trial := range t.Trials() {
				all = append(all, Described{trial.Name, "of `" + r.Name() + "`: " + trial.Mechanism + "; tried once, with a data plane of its own on a cgroup of its own"})
			}
		}
	}
	return all
}
