// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
)

// document is the stored form of a state: core's part of each scope, and one document per module.
type document struct {
	Format   string                     `json:"format"`
	Applied  time.Time                  `json:"applied"`
	Release  bool                       `json:"release,omitempty"`
	NoPolicy bool                       `json:"no_policy,omitempty"`
	Scopes   []documentScope            `json:"scopes"`
	Devices  map[string]deviceID        `json:"devices,omitempty"` // by name in the policy
	Modules  map[string]*documentModule `json:"modules,omitempty"`
}

type documentScope struct {
	Name     string           `json:"name"`
	Selector policy.Selector  `json:"selector"`
	Parent   string           `json:"parent,omitempty"`
	Shadow   bool             `json:"shadow,omitempty"`
	Index    int              `json:"index"`
	Bound    selector.Binding `json:"bound"`
	Owner    *Owner           `json:"owner,omitempty"`
	AsideBy  string           `json:"replaced_by,omitempty"` // scope of the policy
}

// documentModule is a module's part of a state, by names of scopes and items.
type documentModule struct {
	Scopes map[string]json.RawMessage `json:"scopes,omitempty"`
	Host   []documentItem             `json:"host,omitempty"`
}

type documentItem struct {
	Name      string          `json:"name"`
	Treatment json.RawMessage `json:"treatment"`
}

func documentOf(s *state) (*document, error) {
	doc := &document{Format: s.Format, Applied: s.Applied, Release: s.Release, NoPolicy: s.NoPolicy, Devices: s.names.ids, Scopes: []documentScope{}, Modules: map[string]*documentModule{}}
	part := func(name string) *documentModule {
		if doc.Modules[name] == nil {
			doc.Modules[name] = &documentModule{Scopes: map[string]json.RawMessage{}}
		}
		return doc.Modules[name]
	}
	add := func(h held, by string) error {
		doc.Scopes = append(doc.Scopes, documentScope{h.Name, h.Selector, h.Parent, h.Shadow, h.Index, h.Bound, h.Owner, by})
		for name, t := range h.Treatments {
			text, err := json.Marshal(t)
			if err != nil {
				return fmt.Errorf("write policy state: scope %s: %w", h.Name, err)
			}
			part(name).Scopes[h.Name] = text
		}
		return nil
	}
	for _, h := range s.Scopes {
		if err := add(h, ""); err != nil {
			return nil, err
		}
	}
	for _, a := range s.Aside {
		if err := add(held{Scope: a.Scope, Owner: &a.Owner}, a.By); err != nil {
			return nil, err
		}
	}
	for _, item := range s.Host {
		text, err := json.Marshal(item.Treatment)
		if err != nil {
			return nil, fmt.Errorf("write policy state: %s: %w", item.Name, err)
		}
		part(item.Module).Host = append(part(item.Module).Host, documentItem{item.Name, text})
	}
	return doc, nil
}

// state decodes a document with the treatments of its modules.
func (d *document) state(modules []module.Module) (s *state, err error) {
	s = &state{Format: d.Format, Applied: d.Applied, Release: d.Release, NoPolicy: d.NoPolicy}
	at := map[string]policy.Treatments{}
	for _, scope := range d.Scopes {
		at[scope.Name] = policy.Treatments{}
		own := policy.Scope{Name: scope.Name, Selector: scope.Selector, Parent: scope.Parent, Shadow: scope.Shadow, Treatments: at[scope.Name]}
		if scope.AsideBy != "" && scope.Owner != nil {
			s.Aside = append(s.Aside, aside{OwnedScope{own, *scope.Owner}, scope.AsideBy})
			continue
		}
		s.Scopes = append(s.Scopes, held{own, scope.Index, scope.Bound, scope.Owner})
	}
	for _, r := range modules {
		part := d.Modules[r.Name()]
		if part == nil {
			continue
		}
		for name, text := range part.Scopes {
			treatments, known := at[name]
			if !known {
				return nil, fmt.Errorf("%s treats a scope %s that is not there", r.Name(), name)
			}
			t, err := r.Decode(text)
			if err != nil {
				return nil, fmt.Errorf("scope %s: %w", name, err)
			}
			treatments[r.Name()] = t
		}
		for _, item := range part.Host {
			t, err := r.Decode(item.Treatment)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", item.Name, err)
			}
			s.Host = append(s.Host, policy.Item{Module: r.Name(), Name: item.Name, Treatment: t})
		}
	}
	for name := range d.Modules {
		if !slices.ContainsFunc(modules, func(r module.Module) bool { return r.Name() == name }) {
			return nil, fmt.Errorf("it contains the module %s, which this build lacks", name)
		}
	}
	named := s.scopes()
	for _, a := range s.Aside {
		named = append(named, a.Scope)
	}
	s.names, err = lookUpDevices(namesIn(named, s.Host), d.Devices)
	return s, err
}
