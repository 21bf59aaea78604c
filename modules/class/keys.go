// SPDX-License-Identifier: Apache-2.0

package class

import (
	"weir/core/match"
	"weir/core/policy"
	"weir/internal/dscp"
	"weir/internal/yamlfile"
)

const (
	moduleName = "class"
	key        = "class"
	askedKey   = "asked"
)

// scopeKeys holds the keys of a scope for classes.
type scopeKeys struct {
	Class *string         `yaml:"class" doc:"Class of the scope's packets at egress: lbe (less than best effort), best-effort, premium, network-control, or a DSCP by name (AF21) or number. With as-asked, replies get the class of the client's packets."`
	Asked []yamlfile.Text `yaml:"asked" doc:"Accepted classes of requests, for 'class: as-asked'. Default: LE and CS1, both less than best effort. Replies to requests in other classes are not marked."`
}

// Treatment is the class of a scope's packets.
type Treatment struct {
	Class string      `json:"class"` // as the file names it
	DSCP  dscp.DSCP   `json:"dscp"`
	Asked []dscp.DSCP `json:"asked,omitempty"` // classes that it copies from requests, instead of DSCP
}

// asAsked is the class of scopes that answer in the class of the request.
const asAsked = "as-asked"

// Summary names the class.
func (t *Treatment) Summary() string {
	text := key + " " + t.Class
	for _, d := range t.Asked {
		text += " " + d.String()
	}
	return text
}

// treatmentOf returns the treatment of a scope, or nil.
func treatmentOf(s policy.Scope) *Treatment {
	t, _ := s.Treatments[moduleName].(*Treatment)
	return t
}

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Scope: scopeKeys{}, Treats: []string{key, askedKey}, Read: read}
}

// read makes treatments of a file's keys. A scope without a class of its own has that of the
// nearest scope above it.
func read(d *policy.Draft) {
	for i := range d.Scopes {
		s := &d.Scopes[i]
		k := s.Keys.(*scopeKeys)
		if k.Class != nil && *k.Class != asAsked {
			if _, err := dscp.ParseDSCP(*k.Class); err != nil {
				d.Complain(s, key, key+": %v; or %s", err, asAsked)
			}
		}
		readAsked(d, s, k)
	}
	d.Inherit("a class", match.MaxDepth, func(s *policy.DraftScope) policy.Treatment {
		k := s.Keys.(*scopeKeys)
		if k.Class == nil {
			return nil
		}
		t := &Treatment{Class: *k.Class}
		if *k.Class == asAsked {
			t.Asked = k.asked()
		} else {
			t.DSCP, _ = dscp.ParseDSCP(*k.Class) // a mistake was found before
		}
		return t
	})
}

// readAsked reports mistakes in the accepted classes.
func readAsked(d *policy.Draft, s *policy.DraftScope, k *scopeKeys) {
	if k.Asked == nil {
		return
	}
	if k.Class == nil || *k.Class != asAsked {
		d.Complain(s, askedKey, askedKey+": it goes with class: "+asAsked+" alone")
	}
	for _, text := range k.Asked {
		if _, err := dscp.ParseDSCP(text.Value); err != nil {
			d.ComplainAt(text.Place, "", "%s: %v", askedKey, err)
		}
	}
}

// asked returns the accepted classes. The default is less than best effort, so that strangers
// cannot raise the priority of answers.
func (k *scopeKeys) asked() (all []dscp.DSCP) {
	if k.Asked == nil {
		return []dscp.DSCP{dscp.LowEffort, dscp.Scavenger}
	}
	for _, text := range k.Asked {
		dscp, _ := dscp.ParseDSCP(text.Value) // a mistake was found before
		all = append(all, dscp)
	}
	return all
}
