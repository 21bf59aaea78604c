// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"time"

	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/units"
	"weir/modules/limit/shape"
)

// treatmentOf is what limits do to a scope; nil for nothing.
func treatmentOf(s policy.Scope) *Treatment {
	t, _ := s.Treatments[moduleName].(*Treatment)
	return t
}

// warn names what a policy allows and probably does not mean.
func warn(p *policy.Policy) []string {
	return slices.Concat(neverReached(p), aboveParent(p), tooSlow(p), exempt(p), mayCrowd(p), uncovered(p), unpacedDelays(p))
}

// neverReached warns of scopes whose rate is above that of a scope around them: the host, or a
// cgroup above. Of several around a scope it names the one with the least. It climbs paths, so that
// its time grows with the policy alone.
func neverReached(p *policy.Policy) (warnings []string) {
	around := map[policy.Selector]policy.Scope{}
	for _, s := range p.Scopes {
		around[s.Selector] = s
	}
	for _, inner := range p.Scopes {
		outers := p.Enclosing(inner.Selector)
		for _, of := range Directions {
			rate := treatmentOf(inner).of(of)
			if rate == nil {
				continue
			}
			var least *policy.Scope
			for _, selector := range outers {
				outer, there := around[selector]
				if limit := treatmentOf(outer).of(of); there && limit != nil && limit.Rate < rate.Rate &&
					(least == nil || limit.Rate < treatmentOf(*least).of(of).Rate) {
					least = &outer
				}
			}
			if least != nil {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since scope %s around it, at %s, has %s: lower the one or raise the other",
					p.At(inner.Name, of.String()), inner.Name, of, rate.Rate, least.Name, p.At(least.Name, of.String()), treatmentOf(*least).of(of).Rate))
			}
		}
	}
	return warnings
}

// aboveParent warns of children whose rate is above their parent's.
func aboveParent(p *policy.Policy) (warnings []string) {
	named := byName(p)
	for _, s := range p.Scopes {
		for _, of := range Directions {
			rate, most := treatmentOf(s).of(of), treatmentOf(named[s.Parent]).of(of)
			if rate != nil && most != nil && rate.Rate > most.Rate {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since its parent %s, at %s, has %s: leave the rate out, or raise the parent's",
					p.At(s.Name, of.String()), s.Name, of, rate.Rate, s.Parent, p.At(s.Parent, of.String()), most.Rate))
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

// A full-sized packet of 1500 octets takes 100 ms at the slowest rate. TCP sends no less than a
// segment at a time, so flows that share less than this follow their part of it late.
const (
	packetBits               = 1500 * 8
	slowest    units.BitRate = packetBits * 10
)

// tooSlow warns of rates below slowest. Of a child that has its parent's rate the parent's warning
// says enough.
func tooSlow(p *policy.Policy) (warnings []string) {
	named := byName(p)
	for _, s := range p.Scopes {
		for _, of := range Directions {
			rate, above := treatmentOf(s).of(of), treatmentOf(named[s.Parent]).of(of)
			if rate == nil || rate.Rate >= slowest || above != nil && above.Rate == rate.Rate {
				continue
			}
			each := time.Duration(packetBits * float64(time.Second) / float64(rate.Rate)).Round(time.Millisecond)
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is one full-sized packet each %s, too few for several flows to share it evenly or without delay: give %s or more",
				p.At(s.Name, of.String()), s.Name, of, rate.Rate, each, slowest))
		}
	}
	return warnings
}

// exempt warns of scopes that name the loopback device without asking for loopback traffic.
func exempt(p *policy.Policy) (warnings []string) {
	for _, s := range p.Scopes {
		if t := treatmentOf(s); t != nil && selector.IsLoopback(s.Selector) && !t.Loopback {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s limits nothing, since loopback traffic is exempt: add loopback: true",
				p.At(s.Name, s.Selector.Kind), s.Name))
		}
	}
	return warnings
}

// Doubts warns of limits of ingress that cost their senders, of rates that no link of this host can
// carry, where a speed of 0 is not known and warns of nothing, and of what is routed past a limit.
func (Module) Lint(p *policy.Policy) []string {
	return slices.Concat(faster(p, selector.Speed), costly(p, shape.Available), routedAway(p, hostForwards()))
}

func faster(p *policy.Policy, speed func(policy.Selector) (units.BitRate, string)) (warnings []string) {
	for _, s := range p.Scopes {
		t := treatmentOf(s)
		if t == nil {
			continue
		}
		carries, who := speed(s.Selector)
		for _, of := range Directions {
			if rate := t.of(of); rate != nil && carries > 0 && rate.Rate > carries {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since %s %s: give less, or leave it out",
					p.At(s.Name, of.String()), s.Name, of, rate.Rate, who, carries))
			}
		}
	}
	return warnings
}
