// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"fmt"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
)

// Checks are that new connections of a scope use its control.
func (r Module) Checks(s policy.Scope) []module.Check {
	control := treatmentOf(s).Control
	if control == "" {
		return nil // the sender determines the control of received data
	}
	name, kind, _ := r.controlName(control)
	return []module.Check{{
		Name: key, Direction: direction.Egress, Words: control,
		Paths: func(p module.Path) bool { return p.Protocol == module.TCP },
		Flow: func(module.Path) module.Flow {
			return module.Flow{Connections: 1, Rate: 1_000_000, KeepCongestion: true}
		},
		Judge: func(samples []module.Sample, c module.Circumstances) (module.Verdict, string) {
			return judge(name, kind.needsECN, samples, r.others(c.Around))
		},
	}}
}

// others are the controls of other scopes that may decide, by their names in the kernel, and these
// scopes.
func (r Module) others(around []policy.Scope) map[string]string {
	all := map[string]string{}
	for _, s := range around {
		if !s.Shadow && treatmentOf(s).Control != "" {
			name, _, _ := r.controlName(treatmentOf(s).Control)
			all[name] = s.Name
		}
	}
	return all
}

// judge checks the control of each connection at its end.
func judge(name string, needsECN bool, samples []module.Sample, others map[string]string) (module.Verdict, string) {
	for _, s := range samples {
		switch got := s.Congestion; {
		case got == name:
		case got == "":
			return module.CannotSay, "the congestion control of the connection could not be read"
		case others[got] != "":
			return module.CannotSay, fmt.Sprintf("the connection used %s: it belongs to scope %s too, which decides", got, others[got])
		case needsECN:
			return module.CannotSay, fmt.Sprintf("the connection used %s: %s needs ECN, and the peer rejected it; let the peer listen inside a scope with the control", got, name)
		default:
			return module.Fails, fmt.Sprintf("the connection used %s", got)
		}
	}
	return module.Holds, ""
}

// Judges describes the check.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: key, Of: "a scope with a congestion control of its own", Looks: "one TCP connection at 1 Mbit/s with the control of the scope",
		Holds: "each sending socket has the control when the flow ends"}}
}
