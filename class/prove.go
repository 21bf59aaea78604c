// SPDX-License-Identifier: Apache-2.0

package class

import (
	"fmt"
	"strings"

	"weir/internal/direction"
	"weir/internal/room"
	"weir/policy"
)

// Checks are that what a scope sends arrives with its class.
func (Room) Checks(s policy.Scope) []room.Check {
	t := treatmentOf(s)
	if len(t.Asked) > 0 {
		return nil
	}
	return []room.Check{{
		Name: key, Direction: direction.Egress, Words: t.Class, Counters: []string{"marked"},
		Judge: func(samples []room.Sample, c room.Circumstances) (room.Verdict, string) {
			return judge(t.DSCP, samples, c.Around)
		},
	}}
}

// judge looks at the code points with which everything came.
func judge(want DSCP, samples []room.Sample, around []policy.Scope) (room.Verdict, string) {
	others := map[DSCP]string{}
	for _, s := range around {
		if t := treatmentOf(s); !s.Shadow && len(t.Asked) == 0 {
			others[t.DSCP] = s.Name
		}
	}
	told, strange := uint64(0), []string(nil)
	for _, s := range samples {
		for number := range uint8(64) {
			n, got := s.DSCPs[number], DSCP(number)
			if told += n; n == 0 || got == want {
				continue
			}
			if decides := others[got]; decides != "" {
				return room.CannotSay, fmt.Sprintf("%d arrived as %s: they belong to scope %s too, which decides", n, got, decides)
			}
			strange = append(strange, fmt.Sprintf("%d as %s", n, got))
		}
	}
	switch {
	case told == 0:
		return room.CannotSay, "the peer does not tell with which class anything came"
	case len(strange) > 0:
		return room.Fails, "arrived otherwise: " + strings.Join(strange, ", ")
	}
	return room.Holds, ""
}

// Judges describes the check.
func (Room) Judges() []room.Judged {
	return []room.Judged{{Check: key, Of: "a scope with a class, but as-asked", Looks: "the DSCP of every datagram, and of the last packet of each TCP connection's handshake, where it arrives",
		Holds: "all of them have the scope's DSCP"}}
}
