// SPDX-License-Identifier: Apache-2.0

// Package policy is the file in which people declare how traffic is to be treated, and the
// difference between two of them.
//
// A policy is scopes (which traffic) by treatments (what is done to it), and sections about the
// host. This package knows neither selectors nor treatments: a [Language] names the kinds of
// selectors and what each room adds. It is pure: what a selector stands for on this host is found
// out by core/selector.
package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"weir/internal/yamlfile"
)

// Policy is a validated policy file. Scopes are in the file's order.
type Policy struct {
	Scopes   []Scope
	Host     []Item   // what is declared of the host, in the order of the rooms
	Warnings []string // what is allowed and probably not meant, each with its place and a way out
	written  map[string]written
	language *Language
}

// written is where the file speaks of a scope or an item.
type written struct {
	name yamlfile.Place
	keys yamlfile.Fields
}

// At says where the file gives a key of a scope, or else the scope itself, as file:line:column.
func (p *Policy) At(scope, key string) string {
	w := p.written[scope]
	if w.keys.Has(key) {
		return w.keys.At(key).String()
	}
	return w.name.String()
}

// Shadowed is a Treatment of an item of the host that can be in shadow.
type Shadowed interface {
	InShadow() Treatment
}

// PutInShadow puts all scopes in shadow, if asked, and what of the host can be.
func (p *Policy) PutInShadow(shadow bool) {
	for i := range p.Scopes {
		p.Scopes[i].Shadow = p.Scopes[i].Shadow || shadow
	}
	for i := range p.Host {
		if t, can := p.Host[i].Treatment.(Shadowed); can && shadow {
			p.Host[i].Treatment = t.InShadow()
		}
	}
}

// Group is the kind of the selector of scopes that have none of their own: the traffic of their
// children.
const Group = "group"

// Selector says which traffic a scope speaks of. It is comparable; Words follow from the rest.
type Selector struct {
	Kind  string `json:"kind"`           // its key in the file, or Group
	Text  string `json:"text,omitempty"` // in one form for each meaning
	Words string `json:"words"`          // for people: "remote prefix 10.0.0.0/8"
}

func (s Selector) String() string { return s.Words }

// Treatment is what one room does to one scope, or to an item of the host: a struct, or a pointer
// to one, that encoding/json writes and reads, and whose values are equal if reflect.DeepEqual says
// so.
type Treatment interface {
	Summary() string // in one line
}

// Treatments are what is done to one scope, by room.
type Treatments map[string]Treatment

// Scope is some traffic and what is done to it.
type Scope struct {
	Name       string     `json:"name"`
	Selector   Selector   `json:"selector"`
	Parent     string     `json:"parent,omitempty"` // name of a scope, "" for none
	Shadow     bool       `json:"shadow,omitempty"` // count what would be done, do nothing
	Treatments Treatments `json:"treatments"`
}

// Item is something that a room's section declares of the host.
type Item struct {
	Module    string    `json:"module"`
	Name      string    `json:"name"` // as in "link eth0"
	Treatment Treatment `json:"treatment"`
}

// Equal says whether two scopes ask for the same.
func (s Scope) Equal(other Scope) bool {
	return s.Name == other.Name && s.Selector == other.Selector && s.Parent == other.Parent && s.Shadow == other.Shadow &&
		reflect.DeepEqual(s.Treatments, other.Treatments)
}

// Summary describes what is done to a scope in one line.
func (s Scope) Summary() string {
	modules := make([]string, 0, len(s.Treatments))
	for module := range s.Treatments {
		modules = append(modules, module)
	}
	slices.Sort(modules)
	var parts []string
	for _, module := range modules {
		if text := s.Treatments[module].Summary(); text != "" {
			parts = append(parts, text)
		}
	}
	if s.Parent != "" {
		parts = append(parts, "of "+s.Parent)
	}
	if s.Shadow {
		parts = append(parts, "shadow")
	}
	return strings.Join(parts, ", ")
}

// DecodeTreatment reads a module's treatment from JSON; subject names it in the error.
func DecodeTreatment[T any, P interface {
	*T
	Treatment
}](subject string, text []byte) (Treatment, error) {
	t := P(new(T))
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	return t, nil
}
