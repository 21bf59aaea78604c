// SPDX-License-Identifier: Apache-2.0

// Package tree holds datastore contents as typed trees: edit, validation, defaults, filters, XML.
//
// Nodes are immutable. An edit returns a new root that shares every unchanged node with the former
// one, so that equal pointers mean equal contents, a rollback is the former root, and readers need
// no lock.
package tree

import (
	"slices"
	"strings"

	"weir/netconf/schema"
)

// Node is one instance in a datastore. The root has the schema's Top and no name.
type Node struct {
	Schema  *schema.Node
	Value   schema.Value // of a leaf or leaf-list entry
	Kids    []*Node
	Default bool // filled in by WithDefaults, or tagged by it
	key     string
}

// Leaf returns a leaf or leaf-list entry.
func Leaf(s *schema.Node, value schema.Value) *Node {
	n := &Node{Schema: s, Value: value}
	if s.Kind == schema.LeafList {
		n.key = value.Text
	}
	return n
}

// Inner returns a container or list entry with children; keys must come first.
func Inner(s *schema.Node, kids []*Node) *Node {
	n := &Node{Schema: s, Kids: kids}
	if s.Kind == schema.List {
		n.key = keyOf(s, kids)
	}
	return n
}

func keyOf(s *schema.Node, kids []*Node) string {
	values := make([]string, 0, 2)
	for _, name := range s.Keys {
		for _, k := range kids {
			if k.Schema.Name == name && k.Schema.Module == s.Module {
				values = append(values, k.Value.Text)
				break
			}
		}
	}
	return strings.Join(values, "\x00")
}

// Root returns an empty datastore.
func Root(set *schema.Set) *Node { return &Node{Schema: set.Top} }

// Key identifies an entry among those of its list or leaf-list; "" for all else.
func (n *Node) Key() string { return n.key }

// Kid returns the first child of n's own module with a name, or nil. A nil node has none.
func (n *Node) Kid(name string) *Node {
	if n == nil {
		return nil
	}
	for _, k := range n.Kids {
		if k.Schema.Name == name && (k.Schema.Module == n.Schema.Module || n.Schema.Parent == nil) {
			return k
		}
	}
	return nil
}

// From returns the first child of another module with a name, or nil.
func (n *Node) From(module, name string) *Node {
	if n == nil {
		return nil
	}
	for _, k := range n.Kids {
		if k.Schema.Name == name && k.Schema.Module.Name == module {
			return k
		}
	}
	return nil
}

// Text is the value of a leaf child of n's own module, its default, or "".
func (n *Node) Text(name string) string {
	if k := n.Kid(name); k != nil {
		return k.Value.Text
	}
	if n != nil {
		if s := n.Schema.Sibling(name); s != nil && len(s.Defaults) > 0 {
			return s.Defaults[0]
		}
	}
	return ""
}

// All returns the children of n's own module with a name.
func (n *Node) All(name string) (all []*Node) {
	if n == nil {
		return nil
	}
	for _, k := range n.Kids {
		if k.Schema.Name == name && k.Schema.Module == n.Schema.Module {
			all = append(all, k)
		}
	}
	return all
}

// Equal reports whether two trees hold the same values; lists ordered by the system may differ in
// order.
func Equal(a, b *Node) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.Schema != b.Schema || a.Value.Text != b.Value.Text || len(a.Kids) != len(b.Kids) {
		return false
	}
	if slices.EqualFunc(a.Kids, b.Kids, Equal) {
		return true
	}
	ordered := map[*schema.Node][2][]string{}
	find := newIndex(b.Kids)
	for _, k := range a.Kids {
		if !Equal(k, find.of(k)) {
			return false
		}
		if k.Schema.ByUser {
			ordered[k.Schema] = [2][]string{}
		}
	}
	for s := range ordered {
		if !slices.Equal(keysOf(a.Kids, s), keysOf(b.Kids, s)) {
			return false
		}
	}
	return true
}

func keysOf(kids []*Node, s *schema.Node) (keys []string) {
	for _, k := range kids {
		if k.Schema == s {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// place identifies a node among its siblings.
type place struct {
	schema *schema.Node
	key    string
}

// index finds siblings.
type index struct {
	kids []*Node
	at   map[place]int // only for many siblings
}

const few = 12 // siblings that a scan finds sooner than a map

func newIndex(kids []*Node) *index {
	x := &index{kids: kids}
	if len(kids) > few {
		x.at = make(map[place]int, len(kids))
		for i, k := range kids {
			x.at[place{k.Schema, k.key}] = i
		}
	}
	return x
}

// of returns the sibling with n's schema and key, or nil.
func (x *index) of(n *Node) *Node {
	if x.at != nil {
		if i, found := x.at[place{n.Schema, n.key}]; found {
			return x.kids[i]
		}
		return nil
	}
	for _, k := range x.kids {
		if k.Schema == n.Schema && k.key == n.key {
			return k
		}
	}
	return nil
}

// Merge returns the nodes of both trees; values of b win.
func Merge(a, b *Node) *Node {
	if a == nil || b == nil || a == b {
		if a == nil {
			return b
		}
		return a
	}
	if a.Schema.Kind == schema.Leaf || a.Schema.Kind == schema.LeafList {
		return b
	}
	kids := slices.Clone(a.Kids)
	known := map[place]int{}
	for i, k := range kids {
		known[place{k.Schema, k.key}] = i
	}
	for _, k := range b.Kids {
		if i, found := known[place{k.Schema, k.key}]; found {
			kids[i] = Merge(kids[i], k)
		} else {
			kids = append(kids, k)
		}
	}
	return Inner(a.Schema, kids)
}

// Count is the number of nodes.
func (n *Node) Count() int {
	sum := 1
	for _, k := range n.Kids {
		sum += k.Count()
	}
	return sum
}

// Map returns the tree with f applied to every node below n, from the top; nil removes a node.
func (n *Node) Map(f func(*Node) *Node) *Node {
	kids := make([]*Node, 0, len(n.Kids))
	changed := false
	for _, k := range n.Kids {
		mapped := f(k)
		if mapped != nil && len(mapped.Kids) > 0 {
			mapped = mapped.Map(f)
		}
		changed = changed || mapped != k
		if mapped != nil {
			kids = append(kids, mapped)
		}
	}
	if !changed {
		return n
	}
	return &Node{Schema: n.Schema, Value: n.Value, key: n.key, Kids: kids}
}
