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
	Format  string                     `json:"format"`
	Applied time.Time                  `json:"applied"`
	Release bool                       `json:"release,omitempty"`
	Scopes  []documentScope            `json:"scopes"`
	Devices map[string]deviceID        `json:"devices,omitempty"` // by name in the policy
	Modules map[string]*documentModule `json:"modules,omitempty"`
}

type documentScope struct {
	Name     string           `json:"name"`
	Selector policy.Selector  `json:"selector"`
	Parent   string           `json:"parent,omitempty"`
	Shadow   bool             `json:"shadow,omitempty"`
	Index    int              `json:"index"`
	Bound    selector.Binding `json:"bound"`
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
	doc := &document{Format: s.Format, Applied: s.Applied, Release: s.Release, Devices: s.names.ids, Scopes: []documentScope{}, Modules: map[string]*documentModule{}}
	part := func(name string) *documentModule {
		if doc.Modules[name] == nil {
			doc.Modules[name] = &documentModule{Scopes: map[string]json.RawMessage{}}
		}
		return doc.Modules[name]
	}
	for _, h := range s.Scopes {
		doc.Scopes = append(doc.Scopes, documentScope{h.Name, h.Selector, h.Parent, h.Shadow, h.Index, h.Bound})
		for name, t := range h.Treatments {
			text, err := json.Marshal(t)
			if err != nil {
				return nil, fmt.Errorf("write policy state: scope %s: %w", h.Name, err)
			}
			part(name).Scopes[h.Name] = text
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
	s = &state{Format: d.Format, Applied: d.Applied, Release: d.Release}
	at := map[string]int{}
	for i, scope := range d.Scopes {
		at[scope.Name] = i
		s.Scopes = append(s.Scopes, held{policy.Scope{Name: scope.Name, Selector: scope.Selector, Parent: scope.Parent, Shadow: scope.Shadow,
			Treatments: policy.Treatments{}}, scope.Index, scope.Bound})
	}
	for _, r := range modules {
		part := d.Modules[r.Name()]
		if part == nil {
			continue
		}
		for name, text := range part.Scopes {
			i, known := at[name]
			if !known {
				return nil, fmt.Errorf("%s treats a scope %s that is not there", r.Name(), name)
			}
			t, err := r.Decode(text)
			if err != nil {
				return nil, fmt.Errorf("scope %s: %w", name, err)
			}
			s.Scopes[i].Treatments[r.Name()] = t
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
	s.names, err = lookUpDevices(namesIn(s.scopes(), s.Host), d.Devices)
	return s, err
}
