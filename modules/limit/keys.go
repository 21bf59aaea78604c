// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"time"

	"weir/core/policy"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/modules/limit/police"
)

// scopeKeys are the keys of a scope that the module adds.
type scopeKeys struct {
	Egress   *rateKeys `yaml:"egress" doc:"Limit of the traffic that the scope sends."`
	Ingress  *rateKeys `yaml:"ingress" doc:"Limit of the traffic that the scope receives."`
	Loopback bool      `yaml:"loopback" doc:"Also police loopback traffic. Default: loopback traffic is exempt."`
}

// rateKeys are the keys of one direction.
type rateKeys struct {
	yamlfile.Fields `yaml:"-"`
	Rate            *units.BitRate  `yaml:"rate" doc:"Maximum rate in bits per second, such as 200Mbit; 64 kbit/s to 400 Gbit/s. Required unless the scope has a parent or the key 'shared'. Default: the rate of the parent."`
	Min             *units.BitRate  `yaml:"min" doc:"Guaranteed part of the parent's rate (requires 'mode: police') or of the shared limit."`
	Weight          *int            `yaml:"weight" doc:"Weight, 1 to 10000: share of the rate relative to the weights of the siblings, or of the hosts of a shared limit, but at least 'min'. Default: 1."`
	Shared          string          `yaml:"shared" doc:"Name of a shared limit of the fleet; replaces 'rate'. The fleet grants the rate; without contact to the fleet, the rate is 'min'."`
	Max             *units.BitRate  `yaml:"max" doc:"Maximum rate of this host. Requires 'shared'."`
	Mode            string          `yaml:"mode" enum:"police,shape" doc:"Treatment of packets above the rate. shape delays them at the device; police marks them, rejects them at egress and drops them at ingress. Default: the mode of the parent; without a parent, shape unless a reason for policing applies (policy.md lists them)."`
	Burst           *units.Duration `yaml:"burst" doc:"Data that an idle scope may send at line rate, expressed as the time to send it at the limit. The default depends on the rate."`
	Mark            *units.Duration `yaml:"mark" doc:"Queueing delay (with 'mode: police': length of the virtual queue) above which packets are marked and senders are slowed down."`
	Drop            *units.Duration `yaml:"drop" doc:"Queueing delay (with 'mode: police': length of the virtual queue) above which packets are rejected or dropped."`
}

// UnmarshalText reads the short form: the rate alone.
func (r *rateKeys) UnmarshalText(text []byte) error {
	r.Rate = new(units.BitRate)
	return r.Rate.UnmarshalText(text)
}

// ShortForm describes the short form in the schema.
func (*rateKeys) ShortForm() string { return "only the rate, such as 200Mbit" }

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Scope: scopeKeys{}, Treats: []string{Egress.String(), Ingress.String()}, Read: read, Warn: warn}
}

// read makes treatments of the keys: first of each scope alone, then of children and parents.
func read(d *policy.Draft) {
	own := make([]*Treatment, len(d.Scopes))
	for i := range d.Scopes {
		own[i] = readScope(d, &d.Scopes[i])
	}
	for _, step := range []func(*policy.Draft, []*Treatment){inheritAll, checkModes, checkOverlaps, checkShared} {
		if d.Sound() {
			step(d, own)
		}
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

// check reports thresholds that contradict each other or the defaults, which depend on the rate.
func check(d *policy.Draft, s *policy.DraftScope, t *Treatment) {
	for _, dir := range direction.Both {
		if t.of(dir) == nil {
			continue
		}
		if err := t.limit(dir, false).Check(); err != nil {
			d.ComplainAt(d.Place(s, dir.String()), "change the thresholds, or leave them out for the defaults: docs/formats/policy.md#a-rate",
				"scopes.%s: %s: %v", s.Name, dir, err)
		}
	}
}

// readScope reads the keys of one scope.
func readScope(d *policy.Draft, s *policy.DraftScope) *Treatment {
	keys := s.Keys.(*scopeKeys)
	if s.Depth == police.MaxDepth {
		d.Complain(s, "parent", "it has %d scopes above it, and a packet is charged to at most %d scopes: leave a level out", s.Depth, police.MaxDepth)
	}
	return &Treatment{Egress: readRate(d, s, Egress, keys.Egress), Ingress: readRate(d, s, Ingress, keys.Ingress), Loopback: keys.Loopback}
}

// readRate reads and checks one direction by itself; inherit checks it against the parent.
func readRate(d *policy.Draft, s *policy.DraftScope, dir Direction, f *rateKeys) *Limit {
	if f == nil {
		return nil
	}
	if f.Shared != "" || f.Max != nil {
		return readShared(d, s, dir, f)
	}
	r, child, key := &Limit{Mode: f.Mode}, s.Parent != "", dir.String()
	switch {
	case f.Rate != nil && (*f.Rate < police.MinRate || *f.Rate > police.MaxRate):
		d.Complain(s, key, "%s: rate %s is outside %s to %s", key, *f.Rate, police.MinRate, police.MaxRate)
	case f.Rate != nil:
		r.Rate = *f.Rate
	case !child:
		d.Complain(s, key, "%s: the rate is missing: only a scope with a parent may leave it out", key)
	}
	if f.Weight != nil {
		if r.Weight = *f.Weight; r.Weight < 1 || r.Weight > police.MaxWeight {
			d.Complain(s, key, "%s: weight %d is outside 1 to %d", key, r.Weight, police.MaxWeight)
		}
	}
	if f.Min != nil {
		r.Min = *f.Min
	}
	if !child && (f.Weight != nil || f.Min != nil) {
		d.Complain(s, key, "%s: min and weight require a parent: add the key parent", key)
	}
	readThresholds(d, s, dir, f, r)
	return r
}

// readThresholds reads the thresholds of one direction.
func readThresholds(d *policy.Draft, s *policy.DraftScope, dir Direction, f *rateKeys, r *Limit) {
	key := dir.String()
	for _, t := range []struct {
		name string
		from *units.Duration
		to   *time.Duration
	}{{"burst", f.Burst, &r.Burst}, {"mark", f.Mark, &r.Mark}, {"drop", f.Drop, &r.Drop}} {
		if t.from == nil {
			continue
		}
		if *t.from == 0 {
			d.Complain(s, key, "%s: %s must be above 0s: leave it out for the default", key, t.name)
		}
		*t.to = time.Duration(*t.from)
	}
	if r.Mark != 0 && r.Drop != 0 && r.Mark >= r.Drop {
		d.Complain(s, key, "%s: mark %s is not below drop %s", key, r.Mark, r.Drop)
	}
}
