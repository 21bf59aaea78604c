// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weir/internal/room"
	"weir/internal/selector"
	"weir/policy"
)

// document is how a state is written: the spine's part of each scope, and one document for each
// room.
type document struct {
	Format  string                   `json:"format"`
	Applied time.Time                `json:"applied"`
	Release bool                     `json:"release,omitempty"`
	Scopes  []documentScope          `json:"scopes"`
	Rooms   map[string]*documentRoom `json:"rooms,omitempty"`
}

type documentScope struct {
	Name     string           `json:"name"`
	Selector policy.Selector  `json:"selector"`
	Parent   string           `json:"parent,omitempty"`
	Shadow   bool             `json:"shadow,omitempty"`
	Index    int              `json:"index"`
	Bound    selector.Binding `json:"bound"`
}

// documentRoom is what one room does, by the names of scopes and of items of the host.
type documentRoom struct {
	Scopes map[string]json.RawMessage `json:"scopes,omitempty"`
	Host   []documentItem             `json:"host,omitempty"`
}

type documentItem struct {
	Name      string          `json:"name"`
	Treatment json.RawMessage `json:"treatment"`
}

func documentOf(s *state) (*document, error) {
	doc := &document{Format: s.Format, Applied: s.Applied, Release: s.Release, Scopes: []documentScope{}, Rooms: map[string]*documentRoom{}}
	part := func(name string) *documentRoom {
		if doc.Rooms[name] == nil {
			doc.Rooms[name] = &documentRoom{Scopes: map[string]json.RawMessage{}}
		}
		return doc.Rooms[name]
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
		part(item.Room).Host = append(part(item.Room).Host, documentItem{item.Name, text})
	}
	return doc, nil
}

// state reads what a document says, with the rooms that it speaks of.
func (d *document) state(rooms []room.Room) (*state, error) {
	s := &state{Format: d.Format, Applied: d.Applied, Release: d.Release}
	at := map[string]int{}
	for i, scope := range d.Scopes {
		at[scope.Name] = i
		s.Scopes = append(s.Scopes, held{policy.Scope{Name: scope.Name, Selector: scope.Selector, Parent: scope.Parent, Shadow: scope.Shadow,
			Treatments: policy.Treatments{}}, scope.Index, scope.Bound})
	}
	for _, r := range rooms {
		part := d.Rooms[r.Name()]
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
			s.Host = append(s.Host, policy.Item{Room: r.Name(), Name: item.Name, Treatment: t})
		}
	}
	for name := range d.Rooms {
		if !slices.ContainsFunc(rooms, func(r room.Room) bool { return r.Name() == name }) {
			return nil, fmt.Errorf("it holds what the room %s does, which this build does not have", name)
		}
	}
	return s, nil
}
