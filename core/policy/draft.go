// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"weir/internal/yamlfile"
)

// Draft is a policy file whose keys were read and whose rooms say what they make of them.
type Draft struct {
	// Scopes are those without a mistake in the spine's keys, in the file's order.
	Scopes []DraftScope
	// Section is what the file says in the room's own section, of the type of Grammar.Section; nil
	// without one.
	Section  any
	module   string
	policy   *Policy
	problems *yamlfile.Problems
}

// DraftScope is a scope as one room sees it.
type DraftScope struct {
	*Scope
	Keys     any // what the room's keys say: a pointer to the type of Grammar.Scope
	Above    int // its parent's place in Draft.Scopes; -1 without one
	Depth    int // scopes above it
	IsParent bool
	fields   yamlfile.Fields
}

// Has says whether the file gives one of these keys to the scope.
func (s *DraftScope) Has(keys ...string) bool {
	for _, key := range keys {
		if s.fields.Has(key) {
			return true
		}
	}
	return false
}

// Complain notes a mistake in a key of a scope.
func (d *Draft) Complain(s *DraftScope, key, format string, args ...any) {
	d.problems.Add(s.fields.At(key), "", "scopes.%s: %s", s.Name, fmt.Sprintf(format, args...))
}

// Enclosing is [Policy.Enclosing].
func (d *Draft) Enclosing(s Selector) []Selector { return d.policy.Enclosing(s) }

// Place is where the file gives a key of a scope, or else the scope itself.
func (d *Draft) Place(s *DraftScope, key string) yamlfile.Place { return s.fields.At(key) }

// ComplainAt notes a mistake at a place, such as one in the room's section; try is a way out of its
// own, or "".
func (d *Draft) ComplainAt(place yamlfile.Place, try, format string, args ...any) {
	d.problems.Add(place, try, format, args...)
}

// Sound says that no mistake was found so far, in the whole file.
func (d *Draft) Sound() bool { return d.problems.Len() == 0 }

// Treat says what the room does to a scope.
func (d *Draft) Treat(s *DraftScope, t Treatment) { s.Treatments[d.module] = t }

// Inherit gives each scope a treatment of its own, or else that of the nearest scope above it that
// has one; own is nil for none. A scope with more than depth above it is a mistake in key.
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

// Declare says what the room does to something of the host.
func (d *Draft) Declare(name string, at yamlfile.Fields, t Treatment) {
	d.policy.Host = append(d.policy.Host, Item{d.module, name, t})
	d.policy.written[name] = written{at.Self, at}
}
