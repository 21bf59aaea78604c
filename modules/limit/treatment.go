// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"maps"
	"strings"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// Direction is the direction of traffic as the scope's sockets or device see it.
type Direction = direction.Direction

const (
	Egress  = direction.Egress
	Ingress = direction.Ingress
)

// Limit is the limit of one direction of a scope.
type Limit = police.Limit

// Treatment is the limits of a scope. A nil direction is not limited; a scope with a parent has
// every direction that the parent has.
type Treatment struct {
	Egress   *Limit `json:"egress,omitempty"`
	Ingress  *Limit `json:"ingress,omitempty"`
	Loopback bool   `json:"loopback,omitempty"`
}

// treatmentOf returns the limits of a scope; nil for none.
func treatmentOf(s policy.Scope) *Treatment {
	t, _ := s.Treatments[moduleName].(*Treatment)
	return t
}

// of returns the limit of one direction, nil for none. A nil treatment has none.
func (t *Treatment) of(d Direction) *Limit {
	switch {
	case t == nil:
		return nil
	case d == Ingress:
		return t.Ingress
	}
	return t.Egress
}

// set sets the limit of one direction.
func (t *Treatment) set(d Direction, r *Limit) {
	if d == Ingress {
		t.Ingress = r
	} else {
		t.Egress = r
	}
}

// limit returns the settings of one direction for the policer.
func (t *Treatment) limit(d Direction, shadow bool) Limit {
	l := *t.of(d)
	l.Shadow, l.Loopback = shadow, t.Loopback
	return l
}

// Summary describes the limits in one line.
func (t *Treatment) Summary() string {
	var all []string
	for _, d := range direction.Both {
		if rate := t.of(d); rate != nil {
			all = append(all, d.String()+" "+rate.String())
		}
	}
	if t.Loopback {
		all = append(all, "including loopback")
	}
	return strings.Join(all, ", ")
}

// shaped reports whether a direction of a scope is shaped, which requires a mode (chooseModes). A
// shadow scope must not change devices: the policer's programs count its packets instead.
func shaped(s policy.Scope, d Direction) bool {
	l := treatmentOf(s).of(d)
	return l != nil && l.Mode == police.ModeShape && !s.Shadow
}

// policed reports whether a direction of a scope has mode: police, shadow scopes excluded.
func policed(s policy.Scope, d Direction) bool {
	l := treatmentOf(s).of(d)
	return l != nil && l.Mode == police.ModePolice && !s.Shadow
}

// counted reports whether the policer's programs charge packets of a direction: it is policed, or
// the scope is a shadow.
func counted(s policy.Scope, d Direction) bool {
	return treatmentOf(s).of(d) != nil && !shaped(s, d)
}

// anyCounted is counted for either direction.
func anyCounted(s policy.Scope) bool { return counted(s, Egress) || counted(s, Ingress) }

// Shaper returns the settings of the shaper for a limit. It has no device yet.
func Shaper(l Limit, d Direction) shape.Shaper {
	l = l.WithDefaults()
	return shape.Shaper{Direction: d, Follows: l.Shared.Name != "", Weight: l.Weight, Rate: l.Rate, Cost: police.Cost(l.Rate), Burst: l.Burst, Mark: l.Mark, Horizon: l.Drop,
		SmallOctets: police.SmallBytes()}
}

// policedState returns the scopes that the policer's programs charge, without shaped directions.
func policedState(s module.State) module.State {
	rest := module.State{Host: s.Host}
	for _, b := range s.Scopes {
		if !anyCounted(b.Scope) {
			continue
		}
		t := *treatmentOf(b.Scope)
		for _, d := range direction.Both {
			if shaped(b.Scope, d) {
				t.set(d, nil)
			}
		}
		b.Treatments = maps.Clone(b.Treatments)
		b.Treatments[moduleName], b.Treatment = &t, &t
		rest.Scopes = append(rest.Scopes, b)
	}
	return rest
}
