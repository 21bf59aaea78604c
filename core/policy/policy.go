// SPDX-License-Identifier: Apache-2.0

// Package policy parses policy files and compares two of them.
//
// A policy is scopes (traffic) by treatments, and sections about the host. The package knows no
// selector and no treatment: a [Language] combines the kinds of selectors with the keys of each
// module. It is pure: core/selector resolves selectors on the host.
package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"weir/internal/yamlfile"
)

// Policy is a validated policy file. Scopes are in file order.
type Policy struct {
	Scopes   []Scope
	Host     []Item   // items of the host, in the order of modules
	Warnings []string // probable mistakes, each with its place and advice
	written  map[string]written
	language *Language
}

// written holds the places of a scope or item in the file.
type written struct {
	name yamlfile.Place
	keys yamlfile.Fields
}

// At returns the place of a key of a scope, or else of the scope, as file:line:column.
func (p *Policy) At(scope, key string) string {
	w := p.written[scope]
	if w.keys.Has(key) {
		return w.keys.At(key).String()
	}
	return w.name.String()
}

// Wrote reports whether the file has a scope or item of this name.
func (p *Policy) Wrote(name string) bool {
	_, wrote := p.written[name]
	return wrote
}

// Shadowed is a Treatment of an item of the host with a shadow mode.
type Shadowed interface {
	InShadow() Treatment
}

// PutInShadow puts all scopes, and items of the host with a shadow mode, in shadow if requested.
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

// Group is the kind of the selector of groups: the traffic of their members.
const Group = "group"

// Selector identifies the traffic of a scope. It is comparable; Kind and Text determine Words.
type Selector struct {
	Kind  string `json:"kind"`           // its key in the file, or Group
	Text  string `json:"text,omitempty"` // canonical
	Words string `json:"words"`          // description: "remote prefix 10.0.0.0/8"
}

func (s Selector) String() string { return s.Words }

// Treatment is a module's treatment of a scope or an item of the host: a struct, or a pointer to
// one, for encoding/json. Values are equal by reflect.DeepEqual.
type Treatment interface {
	Summary() string // in one line
}

// Treatments maps modules to the treatments of one scope.
type Treatments map[string]Treatment

// Scope is traffic and its treatment.
type Scope struct {
	Name       string     `json:"name"`
	Selector   Selector   `json:"selector"`
	Parent     string     `json:"parent,omitempty"` // name of the parent scope, "" for none
	Shadow     bool       `json:"shadow,omitempty"` // count only
	Treatments Treatments `json:"treatments"`
}

// Item is an object of the host declared in a module's section.
type Item struct {
	Module    string    `json:"module"`
	Name      string    `json:"name"` // for instance "link eth0"
	Treatment Treatment `json:"treatment"`
}

// Equal reports whether two scopes ask for the same.
func (s Scope) Equal(other Scope) bool {
	return s.Name == other.Name && s.Selector == other.Selector && s.Parent == other.Parent && s.Shadow == other.Shadow &&
		reflect.DeepEqual(s.Treatments, other.Treatments)
}

// Summary describes the treatment in one line.
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
