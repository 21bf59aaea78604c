// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"weir/core/engine"
	"weir/core/module"
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

// forwarding reports whether packets that this host forwards belong to the scope and are not
// charged.
func (r *runner) forwarding(_ context.Context, s charged) (Bypass, error) {
	for _, blind := range s.check.Charged.Blind {
		if blind.Name == module.ForwardedTraffic {
			return Bypass{State: CanEscape, Why: blind.Text}, nil
		}
	}
	if s.check.Charged.AtDevice {
		return notApplicable("all packets of " + s.inside.Device + " are charged, forwarded ones too")
	}
	return notApplicable("no forwarded packets of this host belong to the scope")
}

// blind lists the other blind spots of scopes.
func blind(all []charged) (found []Bypass) {
	for _, s := range all {
		for _, b := range s.check.Charged.Blind {
			if b.Name != module.ForwardedTraffic {
				found = append(found, Bypass{Scope: s.scope.Name, Module: s.module, Name: b.Name, State: CanEscape, Why: b.Text})
			}
		}
	}
	return found
}

const packetSocketsName = "packet sockets"

// packetSockets checks for frames that bypass the stack, which matters to scopes charged at
// sockets.
func packetSockets(path string, all []charged) Bypass {
	b := Bypass{Scope: anyScope, Name: packetSocketsName}
	if !slices.ContainsFunc(all, func(s charged) bool { return !s.check.Charged.AtDevice }) {
		b.State, b.Why = NotApplicable, "programs at the devices charge all packets, frames of packet sockets too"
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
