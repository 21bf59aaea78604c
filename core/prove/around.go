// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"weir/core/engine"
	"weir/kernel/sysctl"
)

// anyScope stands for all scopes in the table of bypasses.
const anyScope = "any"

// countedAround returns the bypasses counted by modules.
func countedAround(e *engine.Engine, status engine.Status) (all []Bypass) {
	for _, r := range e.Modules {
		for _, column := range r.Columns().Host {
			if column.Bypass == "" {
				continue
			}
			for _, one := range status.Modules {
				if value, known := one.Host[column.Name]; one.Module == r.Name() && known {
					all = append(all, judgeCounted(Bypass{Scope: anyScope, Module: r.Name(), Name: column.Bypass, Why: column.Help}, value.Count))
				}
			}
		}
	}
	return all
}

func judgeCounted(b Bypass, n uint64) Bypass {
	what := strings.TrimSuffix(b.Why, ".")
	b.State, b.Why = Covered, what+": none so far"
	if n > 0 {
		b.State, b.Why = Escapes, fmt.Sprintf("%s: %d so far", what, n)
	}
	return b
}

// forwarding checks whether a scope of a device meets traffic without a socket on this host.
func (r *runner) forwarding(_ context.Context, s charged) (Bypass, error) {
	if s.inside.Device == "" {
		return notApplicable("the scope is of sockets, and a router's traffic has none here")
	}
	if s.check.Charged.AtDevice {
		return notApplicable("all that passes " + s.inside.Device + " is charged, what is forwarded too")
	}
	var on []string
	for _, key := range []string{"net.ipv4.conf." + s.inside.Device + ".forwarding", "net.ipv6.conf." + s.inside.Device + ".forwarding"} {
		if value, err := sysctl.Get(nil, key); err == nil && value != "0" {
			on = append(on, key)
		}
	}
	if len(on) == 0 {
		return notApplicable("this host forwards nothing from " + s.inside.Device)
	}
	return Bypass{State: CanEscape, Why: "what is forwarded has no socket here and is not charged: " + strings.Join(on, " and ") + " is on"}, nil
}

const packetSocketsName = "packet sockets"

// packetSockets checks for frames that bypass the stack, which matters to scopes charged at
// sockets.
func packetSockets(path string, all []charged) Bypass {
	b := Bypass{Scope: anyScope, Name: packetSocketsName}
	if !slices.ContainsFunc(all, func(s charged) bool { return !s.check.Charged.AtDevice }) {
		b.State, b.Why = NotApplicable, "all that passes the devices is charged, whatever sends it"
		return b
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.State, b.Why = Unknown, fmt.Sprintf("read packet sockets: %v", err)
		return b
	}
	const mechanism = "frames of packet sockets (AF_PACKET, AF_XDP) and of tap devices pass no hook of sockets"
	if n := strings.Count(string(text), "\n") - 1; n > 0 {
		b.State, b.Why = CanEscape, fmt.Sprintf("%s; %d packet sockets are open here", mechanism, n)
		return b
	}
	b.State, b.Why = CanEscape, mechanism
	return b
}
