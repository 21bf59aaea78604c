package policy

import (
	"fmt"
	"path"
	"time"

	"weir/internal/units"
)

// neverReached warns of scopes whose rate is above that of a scope around them: the host, or a cgroup above. Of several
// around a scope it names the one with the least. It climbs paths, so that its time grows with the policy alone.
func (p *Policy) neverReached() (warnings []string) {
	around := map[Selector]Scope{}
	for _, s := range p.Scopes {
		around[s.Applies] = s
	}
	for _, inner := range p.Scopes {
		outers := enclosing(inner.Applies)
		for _, of := range directions {
			rate := of.rate(inner)
			if rate == nil {
				continue
			}
			var least *Scope
			for _, selector := range outers {
				outer, there := around[selector]
				if limit := of.rate(outer); there && limit != nil && limit.Rate < rate.Rate && (least == nil || limit.Rate < of.rate(*least).Rate) {
					least = &outer
				}
			}
			if least != nil {
				warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is never reached, since scope %s around it, at %s, has %s: lower the one or raise the other",
					p.At(inner.Name, of.name), inner.Name, of.name, rate.Rate, least.Name, p.At(least.Name, of.name), of.rate(*least).Rate))
			}
		}
	}
	return warnings
}

// exempt warns of scopes that name the loopback device without asking for loopback traffic.
func (p *Policy) exempt() (warnings []string) {
	for _, s := range p.Scopes {
		if s.Applies == (Selector{Kind: Interface, Text: "lo"}) && !s.Loopback {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s limits nothing, since loopback traffic is exempt: add loopback: true",
				p.At(s.Name, string(Interface)), s.Name))
		}
	}
	return warnings
}

// A full-sized packet of 1500 octets takes 100 ms at the slowest rate. TCP sends no less than a segment at a time, so flows that
// share less than this follow their part of it late.
const (
	packetBits               = 1500 * 8
	slowest    units.BitRate = packetBits * 10
)

// tooSlow warns of rates below slowest. Of a child that has its parent's rate the parent's warning says enough.
func (p *Policy) tooSlow() (warnings []string) {
	named := map[string]Scope{}
	for _, s := range p.Scopes {
		named[s.Name] = s
	}
	for _, s := range p.Scopes {
		for _, of := range directions {
			rate, above := of.rate(s), of.rate(named[s.Parent])
			if rate == nil || rate.Rate >= slowest || above != nil && above.Rate == rate.Rate {
				continue
			}
			each := time.Duration(packetBits * float64(time.Second) / float64(rate.Rate)).Round(time.Millisecond)
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: its %s of %s is one full-sized packet each %s, too few for several flows to share it evenly or without delay: give %s or more",
				p.At(s.Name, of.name), s.Name, of.name, rate.Rate, each, slowest))
		}
	}
	return warnings
}

// directions of a scope, by the names that they have in the file.
var directions = []struct {
	name string
	rate func(Scope) *Rate
}{
	{"egress", func(s Scope) *Rate { return s.Egress }},
	{"ingress", func(s Scope) *Rate { return s.Ingress }},
}

// enclosing lists the selectors whose traffic includes that of s whatever the host is like, the nearest first.
func enclosing(s Selector) (all []Selector) {
	if s.Kind == Cgroup {
		for at := path.Dir(s.Text); at != "/"; at = path.Dir(at) {
			all = append(all, Selector{Kind: Cgroup, Text: at})
		}
	}
	if s.Kind != Host {
		all = append(all, Selector{Kind: Host})
	}
	return all
}
