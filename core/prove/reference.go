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
		{string(Holds), "the promise is kept"},
		{string(Under), "the scope gets less than the promise"},
		{string(Leaks), "the scope gets more, or some of its traffic was not charged"},
		{string(Loses), "the rate is enforced by too many drops"},
		{string(Fails), "a promise other than a rate is broken"},
		{string(CannotSay), "unknown; the reason is given"},
		{string(Shadow), "the scope only counts"},
		{string(Members), "a group: its members are measured one by one"},
	}
}

// States describes the states of bypasses.
func States() []Described {
	return []Described{
		{string(Covered), "the traffic is charged"},
		{string(Escapes), "traffic uses the bypass now"},
		{string(CanEscape), "the bypass exists; no traffic used it"},
		{string(Slowed), "exempt traffic is slowed"},
		{string(NotApplicable), "the scope has no such traffic, or it is exempt on purpose"},
		{string(Unknown), "unknown; the reason is given"},
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
				all = append(all, Described{column.Bypass, "of `" + r.Name() + "`, for all scopes, counted since the apply: " + strings.TrimSuffix(column.Help, ".")})
			}
		}
	}
	all = append(all, Described{packetSocketsName, "for all scopes: frames that bypass the kernel's stack are not charged; the number of open packet sockets"})
	for _, r := range modules {
		if t, tries := r.(module.Trier); tries {
			for _, trial := range t.Trials() {
				all = append(all, Described{trial.Name, "of `" + r.Name() + "`: " + trial.Mechanism + "; tried once, with a separate data plane on a separate cgroup"})
			}
		}
	}
	return all
}
