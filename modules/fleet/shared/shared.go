// SPDX-License-Identifier: Apache-2.0

// Package shared reads the file of a fleet's shared limits.
package shared

import (
	"slices"

	"weir/internal/infile"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/modules/fleet/alloc"
	"weir/modules/fleet/leader"
)

// Bounds of rates in bit/s: others are mistakes.
const (
	minRate   units.BitRate = 64_000
	maxRate   units.BitRate = 1e15
	maxWeight               = 10_000
	maxLimits               = 10_000
)

// file is the file as written.
type file struct {
	yamlfile.Fields `yaml:"-"`
	Version         int                  `yaml:"version,required"`
	Shared          yamlfile.Map[*entry] `yaml:"shared,required"`
}

// entry is one shared limit.
type entry struct {
	yamlfile.Fields `yaml:"-"`
	Rate            *units.BitRate `yaml:"rate"`
	Parent          string         `yaml:"parent"`
	Min             *units.BitRate `yaml:"min"`
	Weight          *int           `yaml:"weight"`
}

// UnmarshalText reads the short form: the rate alone.
func (e *entry) UnmarshalText(text []byte) error {
	e.Rate = new(units.BitRate)
	return e.Rate.UnmarshalText(text)
}

// ShortForm describes the short form in the schema.
func (*entry) ShortForm() string { return "only the rate, such as 10Gbit" }

// Limit is one shared limit of a fleet.
type Limit struct {
	Name   string        `json:"name"`
	Rate   units.BitRate `json:"rate"`             // bit/s
	Parent string        `json:"parent,omitempty"` // "" for none
	Min    units.BitRate `json:"min,omitempty"`    // bit/s, guarantee within the parent
	Weight int           `json:"weight,omitempty"` // within the parent; 0 counts as 1
}

// Limits are the shared limits of a fleet, parents before their children.
type Limits []Limit

var kind = infile.Kind{What: "shared limits", Most: 1 << 20, Name: "name a file of shared limits, as in docs/guides/one-limit-for-many-hosts.md",
	Larger: "leave comments out"}

// Load reads a file.
func Load(filename string) (Limits, error) {
	text, err := kind.Read(filename)
	if err != nil {
		return nil, err
	}
	return Parse(filename, text)
}

// Parse reads the text of a file. Its errors are faults of status Usage with the place of every
// mistake.
func Parse(filename string, text []byte) (Limits, error) {
	tree, err := yamlfile.Parse(filename, text)
	if err != nil {
		return nil, err
	}
	var p yamlfile.Problems
	var f file
	tree.Decode(&f, nil, &p)
	if f.Version != 1 && !f.Flawed("version") {
		p.Add(f.At("version"), "", "version %d is unknown: this Weir reads version 1", f.Version)
	}
	if len(f.Shared) > maxLimits {
		p.Add(f.At("shared"), "", "%d shared limits, more than %d", len(f.Shared), maxLimits)
	}
	if err := p.Err("correct the file at the places named"); err != nil {
		return nil, err
	}
	all := f.read(&p)
	return all, p.Err("correct the file at the places named")
}

// read checks the limits and puts parents before their children.
func (f *file) read(p *yamlfile.Problems) (all Limits) {
	named := map[string]*entry{}
	for _, e := range f.Shared {
		named[e.Key.Value] = e.Value
		e.Value.check(e.Key, p)
	}
	below := map[string]float64{} // guarantees by parent
	added := map[string]bool{}
	rest := slices.Clone(f.Shared)
	for len(rest) > 0 {
		before := len(rest)
		rest = slices.DeleteFunc(rest, func(e yamlfile.Pair[*entry]) bool {
			v := e.Value
			above, there := named[v.Parent]
			if v.Parent != "" && !there {
				p.Add(v.At("parent"), "", "shared.%s: no shared limit %q", e.Key.Value, v.Parent)
				return true
			}
			if v.Parent != "" && !added[v.Parent] {
				return false
			}
			added[e.Key.Value] = true
			l := v.limit(e.Key.Value)
			if there && v.Parent != "" && above.Rate != nil {
				if below[v.Parent] += float64(l.Min); below[v.Parent] > float64(*above.Rate) {
					p.Add(v.At("min"), "", "shared.%s: the guarantees below %s exceed its rate %s", e.Key.Value, v.Parent, *above.Rate)
				}
			}
			all = append(all, l)
			return true
		})
		if len(rest) == before {
			p.Add(rest[0].Value.At("parent"), "", "shared.%s: its parents form a circle", rest[0].Key.Value)
			return all
		}
	}
	return all
}

// check reports mistakes of one limit by itself.
func (e *entry) check(key yamlfile.Text, p *yamlfile.Problems) {
	switch {
	case key.Value == "" || len(key.Value) > 255:
		p.Add(key.Place, "", "shared: a name has 1 to 255 characters")
	case e.Rate == nil:
		p.Add(e.Self, "", "shared.%s: the rate is missing, as in rate: 10Gbit", key.Value)
	case *e.Rate < minRate || *e.Rate > maxRate:
		p.Add(e.At("rate"), "", "shared.%s: rate %s is outside %s to %s", key.Value, *e.Rate, minRate, maxRate)
	case e.Min != nil && *e.Min > *e.Rate:
		p.Add(e.At("min"), "", "shared.%s: min %s is above its rate %s", key.Value, *e.Min, *e.Rate)
	}
	if e.Weight != nil && (*e.Weight < 1 || *e.Weight > maxWeight) {
		p.Add(e.At("weight"), "", "shared.%s: weight %d is outside 1 to %d", key.Value, *e.Weight, maxWeight)
	}
	if e.Parent == "" && (e.Min != nil || e.Weight != nil) {
		p.Add(e.Self, "", "shared.%s: min and weight require a parent", key.Value)
	}
}

func (e *entry) limit(name string) Limit {
	l := Limit{Name: name, Parent: e.Parent}
	if e.Rate != nil {
		l.Rate = *e.Rate
	}
	if e.Min != nil {
		l.Min = *e.Min
	}
	if e.Weight != nil {
		l.Weight = *e.Weight
	}
	return l
}

// Tree returns the limits as the leader needs them.
func (all Limits) Tree() (t leader.Tree, err error) {
	for _, l := range all {
		if err := t.Add(l.Name, l.Parent, alloc.Limit{Rate: float64(l.Rate), Min: float64(l.Min), Weight: float64(l.Weight)}); err != nil {
			return t, err
		}
	}
	return t, nil
}
