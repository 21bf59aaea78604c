// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"time"

	"weir/core/policy"
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// scopeKeys are what limits add to a scope of a policy's file.
type scopeKeys struct {
	Egress   *rateKeys `yaml:"egress" doc:"What it may send."`
	Ingress  *rateKeys `yaml:"ingress" doc:"What it may receive: marked where the packet is ECN-capable, dropped otherwise, or delayed."`
	Loopback bool      `yaml:"loopback" doc:"Limit loopback traffic too; it is exempt otherwise."`
}

// rateKeys are a rate, alone or with the part in a parent and the thresholds of the virtual queue.
type rateKeys struct {
	yamlfile.Fields `yaml:"-"`
	Rate            *units.BitRate `yaml:"rate" doc:"Bits per second, as in 200Mbit: 64 kbit/s to 400 Gbit/s. Required without a parent; with one, its rate if left out."`
	Min             *units.BitRate `yaml:"min" doc:"What the parent keeps for it, whatever its siblings do. Only with a parent."`
	Weight          *int           `yaml:"weight" doc:"Its part of the parent against its siblings' weights, 1 to 10000; 1 if left out. Only with a parent."`
	By              string         `yaml:"by" enum:"refusal,delay" doc:"What becomes of packets beyond the rate: refusal rejects or drops them, delay has them wait at the device; what the parent has if left out, and refusal without one."`
	thresholdKeys
}

// UnmarshalText reads the short form: the rate alone.
func (r *rateKeys) UnmarshalText(text []byte) error {
	r.Rate = new(units.BitRate)
	return r.Rate.UnmarshalText(text)
}

// ShortForm describes it for the schema.
func (*rateKeys) ShortForm() string { return "the rate alone, as in 200Mbit" }

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Scope: scopeKeys{}, Treats: []string{Egress.String(), Ingress.String()}, Read: read, Warn: warn}
}

// read makes limits of a file's keys: first each scope's own, then what children have of their
// parents.
func read(d *policy.Draft) {
	own := make([]*Treatment, len(d.Scopes))
	for i := range d.Scopes {
		own[i] = readScope(d, &d.Scopes[i])
	}
	if d.Sound() {
		share(d, own)
	}
	if d.Sound() {
		refuseDelays(d, own)
	}
	if d.Sound() {
		refuseCrowds(d, own)
	}
	sound := d.Sound()
	for i, t := range own {
		if t.Egress == nil && t.Ingress == nil {
			continue
		}
		d.Treat(&d.Scopes[i], t)
		if sound {
			check(d, &d.Scopes[i], t)
		}
	}
}

// check refuses thresholds that do not fit each other or the defaults of those left out, which
// follow from the rate.
func check(d *policy.Draft, s *policy.DraftScope, t *Treatment) {
	for _, direction := range Directions {
		if t.of(direction) == nil {
			continue
		}
		if err := t.limit(direction, false).Check(); err != nil {
			d.ComplainAt(d.Place(s, direction.String()), "change the thresholds, or leave them out for the defaults: docs/formats/policy.md#a-rate",
				"scopes.%s: %s: %v", s.Name, direction, err)
		}
	}
}

// readScope reads one scope's keys.
func readScope(d *policy.Draft, s *policy.DraftScope) *Treatment {
	keys := s.Keys.(*scopeKeys)
	if s.Depth == MaxDepth {
		d.Complain(s, "parent", "it has %d scopes above it, and a packet is charged to %d scopes at most: leave a level out", s.Depth, MaxDepth)
	}
	return &Treatment{Egress: readRate(d, s, Egress, keys.Egress), Ingress: readRate(d, s, Ingress, keys.Ingress), Loopback: keys.Loopback}
}

// readRate checks what can be seen of a direction alone; a child's part in its parent is seen to by
// share.
func readRate(d *policy.Draft, s *policy.DraftScope, of Direction, f *rateKeys) *Limit {
	if f == nil {
		return nil
	}
	r, child, key := &Limit{By: f.By}, s.Parent != "", of.String()
	switch {
	case f.Rate != nil && (*f.Rate < MinRate || *f.Rate > MaxRate):
		d.Complain(s, key, "%s: rate %s is outside %s to %s", key, *f.Rate, MinRate, MaxRate)
	case f.Rate != nil:
		r.Rate = *f.Rate
	case !child:
		d.Complain(s, key, "%s: no rate is given: only a scope with a parent may leave it out", key)
	}
	if f.Weight != nil {
		if r.Weight = *f.Weight; r.Weight < 1 || r.Weight > MaxWeight {
			d.Complain(s, key, "%s: weight %d is outside 1 to %d", key, r.Weight, MaxWeight)
		}
	}
	if f.Min != nil {
		r.Min = *f.Min
	}
	if !child && (f.Weight != nil || f.Min != nil) {
		d.Complain(s, key, "%s: min and weight speak of a part in a parent: name one with parent", key)
	}
	for _, t := range thresholds() {
		if given := t.given(&f.thresholdKeys); given != nil {
			if *given == 0 {
				d.Complain(s, key, "%s: %s 0s is no threshold: leave it out for the default", key, t.name)
			}
			*t.of(r) = time.Duration(*given)
		}
	}
	if r.Mark != 0 && r.Drop != 0 && r.Mark >= r.Drop {
		d.Complain(s, key, "%s: mark %s is not below drop %s", key, r.Mark, r.Drop)
	}
	return r
}
