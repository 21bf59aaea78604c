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
		{string(Holds), "the measured value is as promised"},
		{string(Under), "the scope gets less than the promised rate"},
		{string(Leaks), "the scope gets more than the promised rate, or some of its traffic was not charged"},
		{string(Loses), "too many packets are lost or retransmitted"},
		{string(Fails), "a measured value other than a rate differs from the promise"},
		{string(CannotSay), "unknown; the reason is given"},
		{string(Shadow), "the scope only counts"},
		{string(Members), "the scope is a group, and each of its members is measured"},
	}
}

// States describes the states of bypasses.
func States() []Described {
	return []Described{
		{string(Covered), "the traffic is charged"},
		{string(Escapes), "traffic uses the bypass at present"},
		{string(CanEscape), "the bypass works, but no traffic used it"},
		{string(Slowed), "exempt traffic is slowed down"},
		{string(NotApplicable), "the scope has no such traffic, or the traffic is exempt on purpose"},
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
				all = append(all, Described{column.Bypass, "`" + r.Name() + "` counts, for all scopes since the apply: " + strings.TrimSuffix(column.Help, ".")})
			}
		}
	}
	all = append(all, Described{packetSocketsName, "for all scopes: the open packet sockets are counted, because frames that bypass the kernel's stack are not charged"})
	for _, r := range modules {
		if t, tries := r.(module.Trier); tries {
			for _, trial := range t.Trials() {
				all = append(all, Described{trial.Name, "`" + r.Name() + "` tries once, with a separate data plane on a separate cgroup: " + trial.Mechanism})
			}
		}
	}
	return all
}
