// SPDX-License-Identifier: Apache-2.0

package class

import (
	"fmt"
	"strings"
	"weir/internal/dscp"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
)

// Checks returns the check that packets of a scope arrive with its class.
func (Module) Checks(s policy.Scope) []module.Check {
	t := treatmentOf(s)
	if len(t.Asked) > 0 {
		return nil
	}
	return []module.Check{{
		Name: key, Direction: direction.Egress, Words: t.Class, Counters: []string{"marked"},
		Judge: func(samples []module.Sample, c module.Circumstances) (module.Verdict, string) {
			return judge(t.DSCP, samples, c.Around)
		},
	}}
}

// judge checks the code points of all received packets.
func judge(want dscp.DSCP, samples []module.Sample, around []policy.Scope) (module.Verdict, string) {
	others := map[dscp.DSCP]string{}
	for _, s := range around {
		if t := treatmentOf(s); !s.Shadow && len(t.Asked) == 0 {
			others[t.DSCP] = s.Name
		}
	}
	told, strange := uint64(0), []string(nil)
	for _, s := range samples {
		for number := range uint8(64) {
			n, got := s.DSCPs[number], dscp.DSCP(number)
			if told += n; n == 0 || got == want {
				continue
			}
			if decides := others[got]; decides != "" {
				return module.CannotSay, fmt.Sprintf("%d arrived as %s: they belong to scope %s too, which decides", n, got, decides)
			}
			strange = append(strange, fmt.Sprintf("%d as %s", n, got))
		}
	}
	switch {
	case told == 0:
		return module.CannotSay, "the peer does not report the class of received packets"
	case len(strange) > 0:
		return module.Fails, "arrived otherwise: " + strings.Join(strange, ", ")
	}
	return module.Holds, ""
}

// Judges describes the check.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: key, Of: "a scope with a class other than as-asked", Looks: "the DSCP of every datagram, and of the last packet of each TCP handshake, at the receiver",
		Holds: "all these packets have the scope's DSCP"}}
}
