// SPDX-License-Identifier: Apache-2.0

package class

import (
	"weir/internal/match"
	"weir/policy"
)

const (
	roomName = "class"
	key      = "class"
)

// scopeKeys are what classes add to a scope of a policy's file.
type scopeKeys struct {
	Class *string `yaml:"class" doc:"Class that its packets are marked with where they leave this host: lbe (less than best effort), best-effort, premium, network-control, the name of a DSCP as AF21, or its number."`
}

// Treatment is the class of a scope's packets.
type Treatment struct {
	Class string `json:"class"` // as the file names it
	DSCP  DSCP   `json:"dscp"`
}

// Summary names the class.
func (t *Treatment) Summary() string { return key + " " + t.Class }

// treatmentOf is what a scope's packets are given; nil for nothing.
func treatmentOf(s policy.Scope) *Treatment {
	t, _ := s.Treatments[roomName].(*Treatment)
	return t
}

func grammar() policy.Grammar {
	return policy.Grammar{Room: roomName, Scope: scopeKeys{}, Treats: []string{key}, Read: read}
}

// read makes treatments of a file's keys. A scope without a class of its own has that of the
// nearest scope above it.
func read(d *policy.Draft) {
	for i := range d.Scopes {
		s := &d.Scopes[i]
		if text := s.Keys.(*scopeKeys).Class; text != nil {
			if _, err := ParseDSCP(*text); err != nil {
				d.Complain(s, key, key+": %v", err)
			}
		}
	}
	d.Inherit("a class", match.MaxDepth, func(s *policy.DraftScope) policy.Treatment {
		text := s.Keys.(*scopeKeys).Class
		if text == nil {
			return nil
		}
		dscp, _ := ParseDSCP(*text) // a mistake was found before
		return &Treatment{Class: *text, DSCP: dscp}
	})
}
