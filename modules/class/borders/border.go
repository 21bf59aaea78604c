// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"fmt"
	"net/netip"
	"weir/internal/dscp"

	"weir/core/policy"
	"weir/kernel/device"
)

// keep replaces a class for packets that keep their DSCP.
const keep = "keep"

// Treatment is the treatment of one border.
type Treatment struct {
	Device    string `json:"device"`
	From      []Rule `json:"from,omitempty"`
	To        []Rule `json:"to,omitempty"`
	Translate []Pair `json:"translate,omitempty"`
	Shadow    bool   `json:"shadow,omitempty"`
}

// Rule is the class of packets from or to a prefix.
type Rule struct {
	Prefix netip.Prefix `json:"prefix"`
	Class  string       `json:"class"` // as the file names it
	DSCP   dscp.DSCP    `json:"dscp"`  // 0 where Class is keep
}

// Pair is a class with another DSCP in the neighbour network.
type Pair struct {
	Here   dscp.DSCP `json:"here"`
	Beyond dscp.DSCP `json:"beyond"`
}

// Summary describes the treatment in one line.
func (t *Treatment) Summary() string {
	text := ""
	add := func(more string) {
		if text != "" {
			text += ", "
		}
		text += more
	}
	if n := len(t.From) + len(t.To); n == 1 {
		rule, side := append(t.From, t.To...)[0], "from "
		if len(t.To) == 1 {
			side = "to "
		}
		add("marks incoming packets " + side + rule.Prefix.String() + ": " + rule.Class)
	} else if n > 1 {
		add(fmt.Sprintf("marks incoming packets by %d prefixes", n))
	}
	for _, p := range t.Translate {
		add(fmt.Sprintf("%s is %s beyond", p.Here, p.Beyond))
	}
	if t.Shadow {
		add("shadow")
	}
	return text
}

// InShadow is the same that only counts.
func (t *Treatment) InShadow() policy.Treatment {
	shadow := *t
	shadow.Shadow = true
	return &shadow
}

// hooks returns the hooks of the border's programs: egress only with translation.
func (t *Treatment) hooks() []device.Hook {
	if len(t.Translate) == 0 {
		return []device.Hook{device.Ingress}
	}
	return []device.Hook{device.Ingress, device.Egress}
}

// translations are the tables of both directions, as the programs read them.
func (t *Treatment) translations() (both [2][64]uint8) {
	for direction := range both {
		for i := range both[direction] {
			both[direction][i] = keepDSCP
		}
	}
	for _, p := range t.Translate {
		both[in][p.Beyond] = uint8(p.Here)
		both[out][p.Here] = uint8(p.Beyond)
	}
	return both
}

// DeviceNames returns the device.
func (t *Treatment) DeviceNames() []string { return []string{t.Device} }

// WithDeviceNames returns a copy with the kernel's name of the device.
func (t *Treatment) WithDeviceNames(now func(string) string) policy.Treatment {
	renamed := *t
	renamed.Device = now(t.Device)
	return &renamed
}
