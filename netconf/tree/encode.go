// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"maps"
	"slices"

	"weir/netconf/schema"
	"weir/netconf/xmltree"
)

// Encode writes the children of n.
func Encode(w *xmltree.Writer, set *schema.Set, n *Node) {
	for _, k := range n.Kids {
		encode(w, set, k)
	}
}

func encode(w *xmltree.Writer, set *schema.Set, n *Node) {
	space := n.Schema.Module.Namespace
	switch n.Schema.Kind {
	case schema.Leaf, schema.LeafList:
		text, attributes := encoded(set, n)
		if n.Default {
			attributes = append(attributes, "xmlns:wd", defaultsSpace, "wd:default", "true")
		}
		w.Leaf(space, n.Schema.Name, text, attributes...)
		return
	}
	if len(n.Kids) == 0 {
		w.Leaf(space, n.Schema.Name, "")
		return
	}
	w.Start(space, n.Schema.Name)
	Encode(w, set, n)
	w.End()
}

// encoded returns the text of a leaf and the prefixes that it needs.
func encoded(set *schema.Set, n *Node) (text string, attributes []string) {
	t := n.Schema.Type
	switch {
	case t.IsIdentity():
		name, identity := schema.SplitIdentity(n.Value.Text)
		m := set.ByName(name)
		if m == n.Schema.Module {
			return identity, nil // the default namespace of the element
		}
		return m.Prefix + ":" + identity, []string{"xmlns:" + m.Prefix, m.Namespace}
	case len(n.Value.Prefixes) > 0:
		for _, prefix := range slices.Sorted(maps.Keys(n.Value.Prefixes)) {
			attributes = append(attributes, "xmlns:"+prefix, n.Value.Prefixes[prefix])
		}
	}
	return n.Value.Text, attributes
}
