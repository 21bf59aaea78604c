// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"

	"weir/core/policy"
	"weir/kernel/sysctl"
	"weir/modules/limit/shape"
)

// unpacedDelays warns where limits by delay leave TCP senders to themselves.
func unpacedDelays(p *policy.Policy) (warnings []string) {
	by := func(is func(policy.Scope) bool) int { return slices.IndexFunc(p.Scopes, is) }
	for _, of := range Directions {
		late := by(func(s policy.Scope) bool { return delays(s, of) })
		other := by(func(s policy.Scope) bool { return refusesIn(s, Egress) || of == Ingress && refusesIn(s, Ingress) })
		if late < 0 || other < 0 {
			continue
		}
		a, b, refused := p.Scopes[late].Name, p.Scopes[other].Name, Egress
		what, out := "is not paced, which leaves it round trips of milliseconds", "all egress"
		if of == Ingress {
			what, out = "is not held by its receivers' windows, so that it waits and some of it is dropped", "everything"
			if !refusesIn(p.Scopes[other], Egress) {
				refused = Ingress
			}
		}
		warnings = append(warnings, fmt.Sprintf("%s: scope %s: TCP under limits by delay %s, since scope %s, at %s, limits by refusal: limit %s by delay",
			p.At(a, of.String()), a, what, b, p.At(b, refused.String()), out))
	}
	return warnings
}

// routedAway warns of limits by delay whose scopes are told by sockets, on a host that forwards:
// what containers with network namespaces of their own send through its router has no socket at the
// device.
func routedAway(p *policy.Policy, forwards bool) (warnings []string) {
	for _, s := range p.Scopes {
		if kind := s.Selector.Kind; forwards && delays(s, Egress) && slices.Contains([]string{"cgroup", "unit", "user"}, kind) {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: this host forwards, and what containers with a network namespace of their own send through its router has no %s where packets wait: it is not limited; limit their network namespace (netns), interface or prefix",
				p.At(s.Name, Egress.String()), s.Name, kind))
		}
	}
	return warnings
}

// hostForwards says whether this thread's network namespace routes packets of others.
func hostForwards() bool {
	for _, key := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if value, err := sysctl.Get(nil, key); err == nil && value != "0" {
			return true
		}
	}
	return false
}

// costly warns of limits of ingress by refusal, which hosts nearby pay for, and of what cannot be
// delayed on this host.
func costly(p *policy.Policy, available func(Direction) (shape.Mechanism, error)) (warnings []string) {
	for _, s := range p.Scopes {
		l := treatmentOf(s).of(Ingress)
		if l == nil || s.Shadow || delays(s, Ingress) {
			continue
		}
		out := "by: delay in a scope of the interface would have it wait"
		if _, err := available(Ingress); err != nil {
			out = "it cannot wait here: " + err.Error()
		}
		warnings = append(warnings, fmt.Sprintf("%s: scope %s: its ingress of %s drops what comes too fast, which hosts nearby send again (a quarter of it and more, with less than the limit used, where few connections share it or pings and datagrams are among it); %s",
			p.At(s.Name, Ingress.String()), s.Name, l.Rate, out))
	}
	return warnings
}
