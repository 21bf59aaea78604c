// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/core/policy"
	"weir/modules/limit/police"
)

// overlaps finds the limited scopes that the same traffic belongs to, on every host.
type overlaps struct {
	named     map[string]policy.Scope
	of        map[policy.Selector]string // names of scopes; the last one of equal selectors wins
	enclosing func(policy.Selector) []policy.Selector
}

func newOverlaps(scopes []policy.Scope, enclosing func(policy.Selector) []policy.Selector) overlaps {
	o := overlaps{map[string]policy.Scope{}, map[policy.Selector]string{}, enclosing}
	for _, s := range scopes {
		o.named[s.Name] = s
		if s.Selector.Kind != policy.Group {
			o.of[s.Selector] = s.Name
		}
	}
	return o
}

// add adds to names the scope, the scopes that enclose it, and the parents of all.
func (o overlaps) add(s policy.Scope, names map[string]bool) {
	all := []string{s.Name}
	for _, outer := range o.enclosing(s.Selector) {
		if name, limited := o.of[outer]; limited {
			all = append(all, name)
		}
	}
	for _, name := range all {
		for name != "" && !names[name] {
			scope, limited := o.named[name]
			if limited {
				names[name] = true
			}
			name = scope.Parent
		}
	}
}

// list joins names in the order of the policy.
func list(scopes []policy.Scope, names map[string]bool) string {
	var all []string
	for _, s := range scopes {
		if names[s.Name] {
			all = append(all, s.Name)
		}
	}
	return strings.Join(all, ", ")
}

// checkOverlaps reports scopes with traffic that always belongs to more scopes than a packet can be
// charged to.
func checkOverlaps(d *policy.Draft, own []*Treatment) {
	var scopes []policy.Scope
	var places []int
	for i := range d.Scopes {
		if own[i].Egress != nil || own[i].Ingress != nil {
			scopes, places = append(scopes, *d.Scopes[i].Scope), append(places, i)
		}
	}
	o := newOverlaps(scopes, d.Enclosing)
	for i, s := range scopes {
		names := map[string]bool{}
		if o.add(s, names); len(names) > police.MaxDepth {
			d.Complain(&d.Scopes[places[i]], s.Selector.Kind, "its traffic belongs to %d scopes (%s), and a packet is charged to at most %d: leave one out", len(names), list(scopes, names), police.MaxDepth)
		}
	}
}

// mayOverlap warns of traffic that may belong to more scopes than a packet can be charged to. It
// takes from each kind of selector the scope with the most others around it.
func mayOverlap(p *policy.Policy) []string {
	var scopes []policy.Scope
	for _, s := range p.Scopes {
		if treatmentOf(s) != nil {
			scopes = append(scopes, s)
		}
	}
	o, largest := newOverlaps(scopes, p.Enclosing), map[string]map[string]bool{}
	for _, s := range scopes {
		kind, names := s.Selector.Kind, map[string]bool{}
		if kind == policy.Group {
			continue
		}
		if kind == kindNetns { // an interface exists in one network namespace
			kind = kindInterface
		}
		if o.add(s, names); len(names) > len(largest[kind]) {
			largest[kind] = names
		}
	}
	all := map[string]bool{}
	for _, names := range largest {
		maps.Copy(all, names)
	}
	if len(all) <= police.MaxDepth {
		return nil
	}
	first := scopes[slices.IndexFunc(scopes, func(s policy.Scope) bool { return all[s.Name] })]
	return []string{fmt.Sprintf("%s: traffic may belong to %d scopes at once (%s), and a packet is charged to at most %d, without the outermost: leave one out, or check the overflow counter of 'weir status'",
		p.At(first.Name, first.Selector.Kind), len(all), list(scopes, all), police.MaxDepth)}
}
