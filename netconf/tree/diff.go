// SPDX-License-Identifier: Apache-2.0

package tree

import "weir/netconf/schema"

// Change is one difference of two datastores: a node with all its descendants created or deleted,
// a leaf with another value, or an entry that was moved in a list that the user orders.
type Change struct {
	Operation Operation // Create, Delete or MergeIn
	Path      *Path
	Old, New  *Node
}

// Diff calls visit for each difference until it returns false. Shared nodes are skipped.
func Diff(old, new *Node, visit func(Change) bool) { diff(old, new, nil, visit) }

func diff(old, new *Node, path *Path, visit func(Change) bool) bool {
	if old == new {
		return true
	}
	before, after := newIndex(old.Kids), newIndex(new.Kids)
	for _, k := range old.Kids {
		if after.of(k) == nil && !visit(Change{Delete, path.To(k), k, nil}) {
			return false
		}
	}
	if !moves(old, new, before, after, path, visit) {
		return false
	}
	for _, k := range new.Kids {
		former := before.of(k)
		here := path.To(k)
		switch {
		case former == nil:
			if !visit(Change{Create, here, nil, k}) {
				return false
			}
		case former == k:
		case len(k.Kids) == 0 && len(former.Kids) == 0:
			if former.Value.Text != k.Value.Text && !visit(Change{MergeIn, here, former, k}) {
				return false
			}
		case !diff(former, k, here, visit):
			return false
		}
	}
	return true
}

// moves visits the entries at other positions among those of both trees.
func moves(old, new *Node, before, after *index, path *Path, visit func(Change) bool) bool {
	former, current := map[*schema.Node][]*Node{}, map[*schema.Node][]*Node{}
	for _, k := range old.Kids {
		if k.Schema.ByUser && after.of(k) != nil {
			former[k.Schema] = append(former[k.Schema], k)
		}
	}
	for _, k := range new.Kids {
		if k.Schema.ByUser && before.of(k) != nil {
			current[k.Schema] = append(current[k.Schema], k)
		}
	}
	for s, entries := range current {
		for i, k := range entries {
			if k.key != former[s][i].key && !visit(Change{MergeIn, path.To(k), before.of(k), k}) {
				return false
			}
		}
	}
	return true
}
