// SPDX-License-Identifier: Apache-2.0

package policy

import "reflect"

// Action is the change of a scope or an item.
type Action string

const (
	Add    Action = "add"
	Change Action = "change"
	Remove Action = "remove"
	Keep   Action = "keep"
	Rebind Action = "rebind" // kept, but bound to another object; set by core/engine
)

// Step is the change of one scope.
type Step struct {
	Action Action `json:"action"`
	Scope  Scope  `json:"scope"`            // the new scope; for Remove the old one
	Before *Scope `json:"before,omitempty"` // for Change
}

// Diff returns the steps between two sets of scopes: removals first, then the others in the order
// of want.
func Diff(have, want []Scope) []Step {
	var steps []Step
	named := map[string]Scope{}
	for _, s := range want {
		named[s.Name] = s
	}
	before := map[string]Scope{}
	for _, s := range have {
		before[s.Name] = s
		if _, stays := named[s.Name]; !stays {
			steps = append(steps, Step{Action: Remove, Scope: s})
		}
	}
	for _, s := range want {
		old, there := before[s.Name]
		switch {
		case !there:
			steps = append(steps, Step{Action: Add, Scope: s})
		case old.Equal(s):
			steps = append(steps, Step{Action: Keep, Scope: s})
		default:
			steps = append(steps, Step{Action: Change, Scope: s, Before: &old})
		}
	}
	return steps
}

// ItemStep is the change of an item of the host.
type ItemStep struct {
	Action Action `json:"action"`
	Item   Item   `json:"item"`             // the new item; for Remove the old one
	Before *Item  `json:"before,omitempty"` // for Change
}

// DiffItems is Diff for items of the host.
func DiffItems(have, want []Item) []ItemStep {
	find := func(all []Item, of Item) *Item {
		for i := range all {
			if all[i].Module == of.Module && all[i].Name == of.Name {
				return &all[i]
			}
		}
		return nil
	}
	var steps []ItemStep
	for _, item := range have {
		if find(want, item) == nil {
			steps = append(steps, ItemStep{Action: Remove, Item: item})
		}
	}
	for _, item := range want {
		switch old := find(have, item); {
		case old == nil:
			steps = append(steps, ItemStep{Action: Add, Item: item})
		case reflect.DeepEqual(old.Treatment, item.Treatment):
			steps = append(steps, ItemStep{Action: Keep, Item: item})
		default:
			steps = append(steps, ItemStep{Action: Change, Item: item, Before: old})
		}
	}
	return steps
}
