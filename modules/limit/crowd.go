// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/core/policy"
	"weir/core/selector"
)

// crowds tells to which scopes with limits traffic belongs whatever the host is like.
type crowds struct {
	named     map[string]policy.Scope
	of        map[policy.Selector]string // name of the scope; of two the later one counts
	enclosing func(policy.Selector) []policy.Selector
}

func newCrowds(scopes []policy.Scope, enclosing func(policy.Selector) []policy.Selector) crowds {
	c := crowds{map[string]policy.Scope{}, map[policy.Selector]string{}, enclosing}
	for _, s := range scopes {
		c.named[s.Name] = s
		if s.Selector.Kind != policy.Group {
			c.of[s.Selector] = s.Name
		}
	}
	return c
}

// around adds a scope to the names of others, and all that its traffic belongs to as well: what
// encloses it, and the parents of all.
func (c crowds) around(s policy.Scope, names map[string]bool) {
	all := []string{s.Name}
	for _, outer := range c.enclosing(s.Selector) {
		if name, limited := c.of[outer]; limited {
			all = append(all, name)
		}
	}
	for _, name := range all {
		for name != "" && !names[name] {
			scope, limited := c.named[name]
			if limited {
				names[name] = true
			}
			name = scope.Parent
		}
	}
}

// words lists names in the order of the file.
func (c crowds) words(scopes []policy.Scope, names map[string]bool) string {
	var all []string
	for _, s := range scopes {
		if names[s.Name] {
			all = append(all, s.Name)
		}
	}
	return strings.Join(all, ", ")
}

// refuseCrowds complains of scopes whose traffic always belongs to more scopes than a packet can be
// charged to.
func refuseCrowds(d *policy.Draft, own []*Treatment) {
	var scopes []policy.Scope
	var places []int
	for i := range d.Scopes {
		if own[i].Egress != nil || own[i].Ingress != nil {
			scopes, places = append(scopes, *d.Scopes[i].Scope), append(places, i)
		}
	}
	c := newCrowds(scopes, d.Enclosing)
	for i, s := range scopes {
		names := map[string]bool{}
		if c.around(s, names); len(names) > MaxDepth {
			d.Complain(&d.Scopes[places[i]], s.Selector.Kind, "its traffic belongs to %d scopes (%s), and a packet is charged to %d at most: leave one out", len(names), c.words(scopes, names), MaxDepth)
		}
	}
}

// Traffic is told by an interface in one network namespace alone.
const kindInterface, kindNetns = "interface", "netns"

// mayCrowd warns of scopes that some traffic may belong to at once, though a packet cannot be
// charged to as many: of each kind of selector the scope that brings most others with it.
func mayCrowd(p *policy.Policy) []string {
	var scopes []policy.Scope
	for _, s := range p.Scopes {
		if treatmentOf(s) != nil {
			scopes = append(scopes, s)
		}
	}
	c, most := newCrowds(scopes, p.Enclosing), map[string]map[string]bool{}
	for _, s := range scopes {
		kind, names := s.Selector.Kind, map[string]bool{}
		if kind == policy.Group {
			continue
		}
		if kind == kindNetns {
			kind = kindInterface
		}
		if c.around(s, names); len(names) > len(most[kind]) {
			most[kind] = names
		}
	}
	all := map[string]bool{}
	for _, names := range most {
		maps.Copy(all, names)
	}
	if len(all) <= MaxDepth {
		return nil
	}
	first := scopes[slices.IndexFunc(scopes, func(s policy.Scope) bool { return all[s.Name] })]
	return []string{fmt.Sprintf("%s: traffic may belong to %d scopes at once (%s), and a packet is charged to %d at most, the outermost left out: leave one out, or see to it that none does ('weir status' counts what did)",
		p.At(first.Name, first.Selector.Kind), len(all), c.words(scopes, all), MaxDepth)}
}

// uncovered warns that scopes of interfaces do not limit what is forwarded, unless by delay.
func uncovered(p *policy.Policy) (warnings []string) {
	for _, s := range p.Scopes {
		if treatmentOf(s) != nil && s.Selector.Kind == kindInterface && !selector.IsLoopback(s.Selector) && refuses(s) {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s limits what sockets of this host send and receive over %s: what it forwards or bridges there is not limited",
				p.At(s.Name, s.Selector.Kind), s.Name, s.Selector.Text))
		}
	}
	return warnings
}
