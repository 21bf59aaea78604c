// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	"weir/internal/yamlfile"
)

// Draft is a decoded policy file to which modules add treatments.
type Draft struct {
	// Scopes holds the scopes without mistakes in core's keys, in file order.
	Scopes []DraftScope
	// Section holds the module's section, of the type of Grammar.Section; nil without one.
	Section  any
	module   string
	policy   *Policy
	problems *yamlfile.Problems
}

// DraftScope is a scope as seen by one module.
type DraftScope struct {
	*Scope
	Keys     any // the module's keys: a pointer to the type of Grammar.Scope
	Above    int // index of its parent in Draft.Scopes; -1 without one
	Depth    int // number of ancestors
	IsParent bool
	fields   yamlfile.Fields
}

// Has reports whether the scope has one of these keys.
func (s *DraftScope) Has(keys ...string) bool {
	for _, key := range keys {
		if s.fields.Has(key) {
			return true
		}
	}
	return false
}

// Complain reports a mistake in a key of a scope.
func (d *Draft) Complain(s *DraftScope, key, format string, args ...any) {
	d.problems.Add(s.fields.At(key), "", "scopes.%s: %s", s.Name, fmt.Sprintf(format, args...))
}

// Enclosing is [Policy.Enclosing].
func (d *Draft) Enclosing(s Selector) []Selector { return d.policy.Enclosing(s) }

// Place returns the place of a key of a scope, or else of the scope.
func (d *Draft) Place(s *DraftScope, key string) yamlfile.Place { return s.fields.At(key) }

// ComplainAt reports a mistake at a place, such as one in the module's section; try is its advice,
// or "".
func (d *Draft) ComplainAt(place yamlfile.Place, try, format string, args ...any) {
	d.problems.Add(place, try, format, args...)
}

// Sound reports whether the whole file has no mistake so far.
func (d *Draft) Sound() bool { return d.problems.Len() == 0 }

// Treat sets the module's treatment of a scope.
func (d *Draft) Treat(s *DraftScope, t Treatment) { s.Treatments[d.module] = t }

// Inherit sets the treatment of each scope: its own, or that of the nearest ancestor with one. own
// returns nil for a scope without one. More ancestors than depth are a mistake at the key.
func (d *Draft) Inherit(key string, depth int, own func(*DraftScope) Treatment) {
	if !d.Sound() {
		return // parents may be missing
	}
	for i := range d.Scopes {
		var t Treatment
		for at := i; at >= 0 && t == nil; at = d.Scopes[at].Above {
			t = own(&d.Scopes[at])
		}
		if t == nil {
			continue
		}
		s := &d.Scopes[i]
		if s.Depth > depth {
			d.Complain(s, "parent", "it has %d scopes above it, and %d at most may be above one with %s: leave a level out", s.Depth, depth, key)
			return
		}
		d.Treat(s, t)
	}
}

// Declared reports whether a module before this one has declared an item of the host.
func (d *Draft) Declared(name string) bool {
	return slices.ContainsFunc(d.policy.Host, func(i Item) bool { return i.Name == name })
}

// Declare sets the module's treatment of an item of the host.
func (d *Draft) Declare(name string, at yamlfile.Fields, t Treatment) {
	d.policy.Host = append(d.policy.Host, Item{d.module, name, t})
	d.policy.written[name] = written{at.Self, at}
}
