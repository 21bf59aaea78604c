// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strconv"
	"strings"

	"weir/netconf/schema"
)

// Maker builds state. Names without a module are of the parent's module, others MODULE:NAME. A name
// that the schema lacks, because its feature is not supported, is left out.
type Maker struct {
	set    *schema.Set
	schema *schema.Node
	kids   []*Node
}

// Make builds a datastore.
func Make(set *schema.Set, build func(*Maker)) *Node {
	m := &Maker{set: set, schema: set.Top}
	build(m)
	return &Node{Schema: set.Top, Kids: m.kids}
}

// MakeBelow builds an instance of a schema node, such as a notification.
func MakeBelow(set *schema.Set, s *schema.Node, build func(*Maker)) *Node {
	m := &Maker{set: set, schema: s}
	build(m)
	return Inner(s, m.kids)
}

func (m *Maker) find(name string) *schema.Node {
	module, local, qualified := strings.Cut(name, ":")
	if !qualified {
		return m.schema.Sibling(name)
	}
	if other := m.set.ByName(module); other != nil {
		return m.schema.Child(other.Namespace, local)
	}
	return nil
}

// In adds a container or list entry.
func (m *Maker) In(name string, build func(*Maker)) *Maker {
	if s := m.find(name); s != nil {
		inner := &Maker{set: m.set, schema: s}
		build(inner)
		m.kids = append(m.kids, Inner(s, inner.kids))
	}
	return m
}

// Leaf adds a leaf or leaf-list entry with a value in canonical form.
func (m *Maker) Leaf(name, value string) *Maker {
	if s := m.find(name); s != nil {
		m.kids = append(m.kids, Leaf(s, schema.Value{Text: value}))
	}
	return m
}

// Uint adds a leaf with a number.
func (m *Maker) Uint(name string, value uint64) *Maker {
	return m.Leaf(name, strconv.FormatUint(value, 10))
}

// Value adds a leaf with a value that has prefixes.
func (m *Maker) Value(name string, value schema.Value) *Maker {
	if s := m.find(name); s != nil {
		m.kids = append(m.kids, Leaf(s, value))
	}
	return m
}
