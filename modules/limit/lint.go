// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/modules/limit/shape"
)

// warn returns warnings about valid policies with a probable mistake.
func warn(p *policy.Policy) []string {
	return slices.Concat(neverReached(p), aboveParent(p), tooSlow(p), exempt(p), mayOverlap(p))
}

// neverReached warns of scopes with a rate above that of an enclosing scope (the host, or a cgroup
// above), and names the enclosing scope with the lowest rate. Its time is linear in the policy.
func neverReached(p *policy.Policy) (warnings []string) {
	around := map[policy.Selector]policy.Scope{}
	for _, s := range p.Scopes {
		around[s.Selector] = s
	}
	for _, inner := range p.Scopes {
		outers := p.Enclosing(inner.Selector)
		for _, of := range direction.Both {
			rate := treatmentOf(inner).of(of)
			if rate == nil {
				continue
			}
			var lowest *policy.Scope
			for _, selector := range outers {
				outer, there := around[selector]
				if limit := treatmentOf(outer).of(of); there && limit != nil && limit.Shared.Name == "" && limit.Rate < rate.Rate &&
					(lowest == nil || limit.Rate < treatmentOf(*lowest).of(of).Rate) {
					lowest = &outer
				}
			}
			if lowest != nil {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since the enclosing scope %s, at %s, has %s: lower the former or raise the latter",
					p.At(inner.Name, of.String()), inner.Name, of, rate.Rate, lowest.Name, p.At(lowest.Name, of.String()), treatmentOf(*lowest).of(of).Rate))
			}
		}
	}
	return warnings
}

// aboveParent warns of children with a rate above their parent's.
func aboveParent(p *policy.Policy) (warnings []string) {
	named := byName(p)
	for _, s := range p.Scopes {
		for _, of := range direction.Both {
			rate, above := treatmentOf(s).of(of), treatmentOf(named[s.Parent]).of(of)
			if rate != nil && above != nil && rate.Rate > above.Rate {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since its parent %s, at %s, has %s: leave the rate out, or raise the parent's",
					p.At(s.Name, of.String()), s.Name, of, rate.Rate, s.Parent, p.At(s.Parent, of.String()), above.Rate))
			}
		}
	}
	return warnings
}

func byName(p *policy.Policy) map[string]policy.Scope {
	named := map[string]policy.Scope{}
	for _, s := range p.Scopes {
		named[s.Name] = s
	}
	return named
}

// At the slowest rate a full-sized packet of 1500 bytes takes 100 ms. TCP sends whole segments, so
// several flows cannot share a lower rate evenly.
const (
	packetBits               = 1500 * 8
	slowest    units.BitRate = packetBits * 10
)

// tooSlow warns of rates below slowest, once for a parent and children with the same rate.
func tooSlow(p *policy.Policy) (warnings []string) {
	named := byName(p)
	for _, s := range p.Scopes {
		for _, of := range direction.Both {
			rate, above := treatmentOf(s).of(of), treatmentOf(named[s.Parent]).of(of)
			if rate == nil || rate.Shared.Name != "" || rate.Rate >= slowest || above != nil && above.Rate == rate.Rate {
				continue
			}
			each := time.Duration(packetBits * float64(time.Second) / float64(rate.Rate)).Round(time.Millisecond)
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is one full-sized packet every %s, too slow for several flows to share evenly or without delay: write %s or more",
				p.At(s.Name, of.String()), s.Name, of, rate.Rate, each, slowest))
		}
	}
	return warnings
}

// exempt warns of scopes of the loopback device without the key loopback.
func exempt(p *policy.Policy) (warnings []string) {
	for _, s := range p.Scopes {
		if t := treatmentOf(s); t != nil && selector.IsLoopback(s.Selector) && !t.Loopback {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s limits nothing, since loopback traffic is exempt: add loopback: true",
				p.At(s.Name, s.Selector.Kind), s.Name))
		}
	}
	return warnings
}

// Lint returns warnings that depend on the host: rates above a link's speed, mixed modes, policed
// ingress, and traffic that limits do not cover.
func (Module) Lint(p *policy.Policy) []string {
	p = onHost(p)
	return slices.Concat(aboveSpeed(p, selector.Speed), mixedModes(p), policedIngress(p, shape.Available), unseen(p, here()))
}

// onHost returns a policy with the modes that this host chooses, except for filters of others.
func onHost(p *policy.Policy) *policy.Policy {
	var s module.State
	for _, scope := range p.Scopes {
		if treatmentOf(scope) != nil {
			s.Scopes = append(s.Scopes, module.Bound{Scope: scope, Treatment: scope.Treatments[moduleName]})
		}
	}
	h := shape.Host{Describes: true}
	s, _, _ = chooseModesBy(h, s, recently(h))
	named, chosen := s.ByName(), *p
	chosen.Scopes = slices.Clone(p.Scopes)
	for i, scope := range chosen.Scopes {
		if b, treated := named[scope.Name]; treated {
			chosen.Scopes[i] = b.Scope
		}
	}
	return &chosen
}

// aboveSpeed warns of rates above the speed of a link. Speed 0 is unknown.
func aboveSpeed(p *policy.Policy, speed func(policy.Selector) (units.BitRate, string)) (warnings []string) {
	for _, s := range p.Scopes {
		t := treatmentOf(s)
		if t == nil {
			continue
		}
		carries, who := speed(s.Selector)
		for _, of := range direction.Both {
			if rate := t.of(of); rate != nil && carries > 0 && rate.Rate > carries {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since %s %s: write a lower rate, or leave it out",
					p.At(s.Name, of.String()), s.Name, of, rate.Rate, who, carries))
			}
		}
	}
	return warnings
}

// mixedModes warns of shaped scopes with unpaced TCP senders: a policed scope owns the pace of all
// sockets.
func mixedModes(p *policy.Policy) (warnings []string) {
	index := func(is func(policy.Scope) bool) int { return slices.IndexFunc(p.Scopes, is) }
	for _, dir := range direction.Both {
		shaper := index(func(s policy.Scope) bool { return shaped(s, dir) })
		policer := index(func(s policy.Scope) bool { return policed(s, Egress) || dir == Ingress && policed(s, Ingress) })
		if shaper < 0 || policer < 0 {
			continue
		}
		a, b, other := p.Scopes[shaper].Name, p.Scopes[policer].Name, Egress
		effect, remedy := "is not paced and queues for milliseconds", "all egress"
		if dir == Ingress {
			effect, remedy = "is not throttled by receive windows: packets queue, and some are dropped", "all limits"
			if !policed(p.Scopes[policer], Egress) {
				other = Ingress
			}
		}
		warnings = append(warnings, fmt.Sprintf("%s: scope %s: shaped TCP %s, since scope %s, at %s, is policed: use mode: shape for %s",
			p.At(a, dir.String()), a, effect, b, p.At(b, other.String()), remedy))
	}
	return warnings
}

// policedIngress warns of policed ingress, which drops packets that hosts nearby have to
// retransmit.
func policedIngress(p *policy.Policy, available func(Direction) (shape.Mechanism, error)) (warnings []string) {
	for _, s := range p.Scopes {
		l := treatmentOf(s).of(Ingress)
		if l == nil || s.Shadow || shaped(s, Ingress) {
			continue
		}
		remedy := "use mode: shape in a scope of the interface"
		if _, err := available(Ingress); err != nil {
			remedy = "shaping is not available here: " + err.Error()
		}
		warnings = append(warnings, fmt.Sprintf("%s: scope %s: its ingress of %s drops excess packets, which hosts nearby retransmit (a quarter of them and more, below the limit, with few connections or with small packets beside them); %s",
			p.At(s.Name, Ingress.String()), s.Name, l.Rate, remedy))
	}
	return warnings
}
