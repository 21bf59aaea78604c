// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/xmltree"
)

// Namespaces of attributes in edits.
const (
	yangSpace     = "urn:ietf:params:xml:ns:yang:1"
	defaultsSpace = "urn:ietf:params:xml:ns:netconf:default:1.0"
)

// Operation is an edit operation (RFC 6241 section 7.2).
type Operation string

const (
	MergeIn Operation = "merge"
	Replace Operation = "replace"
	Create  Operation = "create"
	Delete  Operation = "delete"
	Remove  Operation = "remove"
	None    Operation = "none"
)

// editor applies one request.
type editor struct {
	set        *schema.Set
	persistent bool // continue on error
	errors     []*rpcerr.Error
}

// Edit applies the children of config to a datastore. Without continueOnError the first error ends
// it, and the root returned is the former one.
func Edit(set *schema.Set, root *Node, config *xmltree.Element, def Operation, continueOnError bool) (*Node, []*rpcerr.Error) {
	e := &editor{set: set, persistent: continueOnError}
	from := root
	if def == Replace {
		from, def = Root(set), MergeIn
	}
	edited := e.kids(from, config.Kids, def, nil)
	if len(e.errors) > 0 && !continueOnError {
		return root, e.errors
	}
	if Equal(root, edited) {
		return root, e.errors
	}
	return edited, e.errors
}

// complain records an error; it reports whether the edit goes on.
func (e *editor) complain(err *rpcerr.Error) bool {
	e.errors = append(e.errors, err)
	return e.persistent
}

// kids applies elements to the children of a node.
func (e *editor) kids(parent *Node, elements []*xmltree.Element, op Operation, path *Path) *Node {
	b := newSiblings(parent, len(elements))
	if err := e.oneCase(parent.Schema, elements, path); err != nil && !e.complain(err) {
		return parent
	}
	for _, x := range elements {
		if err := e.kid(b, x, op, path); err != nil && !e.complain(err) {
			return parent
		}
		if len(e.errors) > 0 && !e.persistent {
			return parent
		}
	}
	return b.node()
}

// oneCase rejects nodes of two cases of one choice (RFC 7950 section 8.3.1).
func (e *editor) oneCase(parent *schema.Node, elements []*xmltree.Element, path *Path) *rpcerr.Error {
	chosen := map[*schema.Node]*schema.Node{}
	for _, x := range elements {
		s := parent.Child(x.Space, x.Local)
		if op, err := e.operation(x, None, path); s == nil || err != nil || op == Delete || op == Remove {
			continue
		}
		for c := s.Parent; c != nil && (c.Kind == schema.Case || c.Kind == schema.Choice); c = c.Parent {
			if c.Kind != schema.Case {
				continue
			}
			if other := chosen[c.Parent]; other != nil && other != c {
				return path.down(s, "").fail(rpcerr.BadElement, "%s is of case %s, and another element is of case %s of the choice %s",
					x.Local, c.Name, other.Name, c.Parent.Name).With("bad-element", x.Local)
			}
			chosen[c.Parent] = c
		}
	}
	return nil
}

// operation returns the operation of an element. Unprefixed attributes of that name are accepted,
// as old clients send them.
func (e *editor) operation(x *xmltree.Element, inherited Operation, path *Path) (Operation, *rpcerr.Error) {
	text, found := x.Attr(rpcerr.Base, "operation")
	if !found {
		text, found = x.Attr("", "operation")
	}
	if !found {
		return inherited, nil
	}
	switch op := Operation(text); op {
	case MergeIn, Replace, Create, Delete, Remove:
		return op, nil
	}
	return "", path.fail(rpcerr.BadAttribute, "%q is no operation: use merge, replace, create, delete or remove", text).
		With("bad-attribute", "operation").With("bad-element", x.Local)
}

// kid applies one element.
func (e *editor) kid(b *siblings, x *xmltree.Element, inherited Operation, path *Path) *rpcerr.Error {
	s := b.schema.Child(x.Space, x.Local)
	if s == nil || !s.Config {
		return e.unknown(x, s, path)
	}
	here := path.down(s, "")
	op, err := e.operation(x, inherited, here)
	if err != nil {
		return err
	}
	place, err := placeOf(x)
	if err != nil {
		return err
	}
	switch s.Kind {
	case schema.Leaf, schema.LeafList:
		return e.leaf(b, s, x, op, place, here)
	case schema.List:
		if here.Key, err = e.keyOf(s, x, here); err != nil {
			return err
		}
	}
	return e.inner(b, s, x, op, place, here)
}

func (e *editor) unknown(x *xmltree.Element, s *schema.Node, path *Path) *rpcerr.Error {
	switch {
	case s != nil:
		return path.down(s, "").fail(rpcerr.UnknownElement, "%s is state, not configuration", x.Local).With("bad-element", x.Local)
	case e.set.Module(x.Space) == nil:
		return path.fail(rpcerr.UnknownNamespace, "no module has the namespace %q of element %s", x.Space, x.Local).
			With("bad-element", x.Local).With("bad-namespace", x.Space)
	}
	return path.fail(rpcerr.UnknownElement, "there is no node %s here, or its feature is not supported", x.Local).With("bad-element", x.Local)
}

func (e *editor) leaf(b *siblings, s *schema.Node, x *xmltree.Element, op Operation, to insertion, path *Path) *rpcerr.Error {
	if len(x.Kids) > 0 {
		return path.fail(rpcerr.UnknownElement, "leaf %s holds an element", s.Name).With("bad-element", x.Kids[0].Local)
	}
	n := &Node{Schema: s}
	if s.Kind == schema.LeafList || op != Delete && op != Remove {
		value, err := s.Type.Canonical(x.Text, x.Namespace)
		if err != nil {
			return path.fail(rpcerr.InvalidValue, "%s", err).With("bad-element", s.Name)
		}
		n = Leaf(s, value)
		path.Key = n.key
	}
	if text, has := x.Attr(defaultsSpace, "default"); has && (text == "true" || text == "1") {
		if len(s.Defaults) != 1 || s.Defaults[0] != n.Value.Text {
			return path.fail(rpcerr.InvalidValue, "the attribute default is true, and the value is not the default").With("bad-element", s.Name)
		}
		op = Remove // RFC 6243 section 4.5.2
	}
	old := b.find(n)
	switch {
	case op == Delete && old == nil, op == None && old == nil:
		return path.fail(rpcerr.DataMissing, "%s does not exist", s.Name)
	case op == Create && old != nil:
		return path.fail(rpcerr.DataExists, "%s exists", s.Name)
	case op == Delete, op == Remove:
		b.remove(old)
	case op == None, old != nil && old.Value.Text == n.Value.Text && !to.given:
	default:
		return b.put(n, to, path)
	}
	return nil
}

func (e *editor) inner(b *siblings, s *schema.Node, x *xmltree.Element, op Operation, to insertion, path *Path) *rpcerr.Error {
	if x.Value() != "" {
		return path.fail(rpcerr.BadElement, "%s holds text, not elements", s.Name).With("bad-element", s.Name)
	}
	old := b.find(&Node{Schema: s, key: path.Key})
	switch {
	case op == Delete && old == nil:
		return path.fail(rpcerr.DataMissing, "%s does not exist", s.Name)
	case op == Delete, op == Remove:
		b.remove(old)
		return nil
	case op == Create && old != nil:
		return path.fail(rpcerr.DataExists, "%s exists", s.Name)
	case op == None && old == nil && (s.Kind == schema.List || s.Presence):
		if removesOnly(x) {
			return nil
		}
		return path.fail(rpcerr.DataMissing, "%s does not exist", s.Name)
	}
	from, inherited := old, op
	if op == Replace || op == Create {
		from, inherited = nil, MergeIn
	}
	elements := x.Kids
	if from == nil {
		var keys []*Node
		if keys, elements = e.keys(s, x); len(keys) < len(s.Keys) {
			return nil // keyOf has complained
		}
		from = &Node{Schema: s, key: path.Key, Kids: keys}
	}
	n := e.kids(from, elements, inherited, path)
	switch {
	case len(n.Kids) == 0 && s.Kind == schema.Container && !s.Presence:
		b.remove(old)
	case old != nil && Equal(old, n) && !to.given:
	default:
		return b.put(n, to, path)
	}
	return nil
}

// removesOnly reports whether all operations inside an element are "remove".
func removesOnly(x *xmltree.Element) bool {
	found := false
	for _, k := range x.Kids {
		text, has := k.Attr(rpcerr.Base, "operation")
		switch {
		case has && text != string(Remove):
			return false
		case has:
			found = true
		case len(k.Kids) > 0:
			if !removesOnly(k) {
				return false
			}
			found = true
		}
	}
	return found
}

// keys separates the key leaves of an element from the rest.
func (e *editor) keys(s *schema.Node, x *xmltree.Element) (keys []*Node, rest []*xmltree.Element) {
	if s.Kind != schema.List {
		return nil, x.Kids
	}
	taken := map[*xmltree.Element]bool{}
	for _, name := range s.Keys {
		k := x.Kid(s.Module.Namespace, name)
		value, err := s.Sibling(name).Type.Canonical(k.Text, k.Namespace)
		if err != nil {
			return nil, nil
		}
		keys = append(keys, Leaf(s.Sibling(name), value))
		taken[k] = true
	}
	for _, k := range x.Kids {
		if !taken[k] {
			rest = append(rest, k)
		}
	}
	return keys, rest
}

func (e *editor) keyOf(s *schema.Node, x *xmltree.Element, path *Path) (string, *rpcerr.Error) {
	var values []*Node
	for _, name := range s.Keys {
		k := x.Kid(s.Module.Namespace, name)
		if k == nil {
			return "", path.fail(rpcerr.MissingElement, "the key %s of list %s is missing", name, s.Name).With("bad-element", name)
		}
		leaf := s.Sibling(name)
		value, err := leaf.Type.Canonical(k.Text, k.Namespace)
		if err != nil {
			return "", path.down(leaf, "").fail(rpcerr.InvalidValue, "%s", err).With("bad-element", name)
		}
		values = append(values, Leaf(leaf, value))
	}
	return keyOf(s, values), nil
}
