// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"strings"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/xmltree"
)

// siblings are the children of a node during an edit. Removed ones are nil until node.
type siblings struct {
	schema  *schema.Node
	parent  *Node
	kids    []*Node
	at      map[place]int // nil for few elements
	changed bool
}

func newSiblings(parent *Node, elements int) *siblings {
	b := &siblings{schema: parent.Schema, parent: parent, kids: parent.Kids}
	if elements > few {
		b.at = make(map[place]int, len(parent.Kids)+elements)
		b.number()
	}
	return b
}

func (b *siblings) number() {
	clear(b.at)
	for i, k := range b.kids {
		if k != nil {
			b.at[place{k.Schema, k.key}] = i
		}
	}
}

// where returns the place of the sibling with n's schema and key, or -1.
func (b *siblings) where(n *Node) int {
	if b.at != nil {
		if i, found := b.at[place{n.Schema, n.key}]; found {
			return i
		}
		return -1
	}
	return slices.IndexFunc(b.kids, func(k *Node) bool { return k != nil && k.Schema == n.Schema && k.key == n.key })
}

func (b *siblings) find(n *Node) *Node {
	if i := b.where(n); i >= 0 {
		return b.kids[i]
	}
	return nil
}

// own copies the list before its first change.
func (b *siblings) own() {
	if !b.changed {
		b.kids, b.changed = slices.Clone(b.kids), true
	}
}

func (b *siblings) remove(n *Node) {
	if n == nil {
		return
	}
	b.own()
	b.kids[b.where(n)] = nil
	if b.at != nil {
		delete(b.at, place{n.Schema, n.key})
	}
}

// put sets a node. A new one removes the nodes of other cases of its choices.
func (b *siblings) put(n *Node, to insertion, path *Path) *rpcerr.Error {
	b.own()
	at := b.where(n)
	if at >= 0 && !to.given {
		b.kids[at] = n
		return nil
	}
	if at < 0 {
		b.leaveCases(n.Schema)
	}
	if !to.given || !n.Schema.ByUser {
		b.kids = append(b.kids, n)
		if b.at != nil {
			b.at[place{n.Schema, n.key}] = len(b.kids) - 1
		}
		return nil
	}
	if at >= 0 {
		b.kids[at] = nil
		delete(b.at, place{n.Schema, n.key}) // an entry cannot be placed beside itself
	}
	return b.insert(n, to, path)
}

// insert places an entry of a list that the user orders (RFC 7950 section 7.8.6).
func (b *siblings) insert(n *Node, to insertion, path *Path) *rpcerr.Error {
	at := len(b.kids)
	switch to.where {
	case "first":
		at = max(slices.IndexFunc(b.kids, func(k *Node) bool { return k != nil && k.Schema == n.Schema }), 0)
		if at < len(b.schema.Keys) {
			at = min(len(b.schema.Keys), len(b.kids))
		}
	case "before", "after":
		other := b.where(&Node{Schema: n.Schema, key: to.key})
		if other < 0 {
			return path.fail(rpcerr.BadAttribute, "the attribute %s names no entry of %s", to.attribute(n.Schema), n.Schema.Name).
				App("missing-instance").With("bad-attribute", to.attribute(n.Schema)).With("bad-element", n.Schema.Name)
		}
		at = other
		if to.where == "after" {
			at++
		}
	}
	b.kids = slices.Insert(b.kids, at, n)
	if b.at != nil {
		b.number()
	}
	return nil
}

// leaveCases removes the nodes of all other cases of the choices that s is in.
func (b *siblings) leaveCases(s *schema.Node) {
	for c := s.Parent; c != nil && (c.Kind == schema.Case || c.Kind == schema.Choice); c = c.Parent {
		if c.Kind != schema.Case {
			continue
		}
		for _, k := range b.kids {
			if k != nil && inChoice(k.Schema, c.Parent) && !inChoice(k.Schema, c) {
				b.remove(k)
			}
		}
	}
}

// inChoice reports whether a node belongs to a choice or case.
func inChoice(s, choice *schema.Node) bool {
	for p := s.Parent; p != nil && (p.Kind == schema.Case || p.Kind == schema.Choice); p = p.Parent {
		if p == choice {
			return true
		}
	}
	return false
}

// node returns the edited node, or the former one if nothing changed.
func (b *siblings) node() *Node {
	if !b.changed {
		return b.parent
	}
	return &Node{Schema: b.schema, key: b.parent.key, Kids: slices.DeleteFunc(b.kids, func(k *Node) bool { return k == nil })}
}

// insertion is where an entry of a list goes that the user orders.
type insertion struct {
	given bool
	where string // first, last, before or after
	key   string
}

func (i insertion) attribute(s *schema.Node) string {
	if s.Kind == schema.LeafList {
		return "value"
	}
	return "key"
}

func placeOf(x *xmltree.Element) (to insertion, err *rpcerr.Error) {
	where, given := x.Attr(yangSpace, "insert")
	if !given {
		return to, nil
	}
	to = insertion{given: true, where: where}
	switch where {
	case "first", "last":
		return to, nil
	case "before", "after":
		if value, has := x.Attr(yangSpace, "value"); has {
			to.key = value
			return to, nil
		}
		if predicates, has := x.Attr(yangSpace, "key"); has {
			to.key = predicateValues(predicates)
			return to, nil
		}
		return to, rpcerr.New(rpcerr.MissingAttribute, "insert %s needs the attribute key or value", where).
			With("bad-attribute", "key").With("bad-element", x.Local)
	}
	return to, rpcerr.New(rpcerr.BadAttribute, "%q is no place: use first, last, before or after", where).
		With("bad-attribute", "insert").With("bad-element", x.Local)
}

// predicateValues returns the values of [p:a='x'][p:b="y"], joined as keys are.
func predicateValues(text string) string {
	var values []string
	for part := range strings.SplitSeq(text, "]") {
		_, value, found := strings.Cut(part, "=")
		if found {
			values = append(values, strings.Trim(strings.TrimSpace(value), `'"`))
		}
	}
	return strings.Join(values, "\x00")
}
