// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/xmltree"
)

// Subtree returns the nodes that a subtree filter selects (RFC 6241 section 6), with the keys of
// their lists. A filter without elements selects nothing.
func Subtree(root *Node, filter *xmltree.Element) *Node {
	kids, _ := selected(root, filter.Kids)
	return &Node{Schema: root.Schema, Kids: kids}
}

// matches compares names. A filter element without a namespace, or in that of the message, matches
// every namespace.
func matches(n *Node, f *xmltree.Element) bool {
	return n.Schema.Name == f.Local && (f.Space == n.Schema.Module.Namespace || f.Space == "" || f.Space == rpcerr.Base)
}

// selected returns the children of n that any of the filter's siblings selects.
func selected(n *Node, siblings []*xmltree.Element) (kids []*Node, all bool) {
	all = true
	for _, k := range n.Kids {
		var union *Node
		for _, f := range siblings {
			if !matches(k, f) {
				continue
			}
			part := choose(k, f)
			if part == k {
				union = k
				break
			}
			if part != nil && union != nil {
				part = Merge(union, part)
			}
			if part != nil {
				union = part
			}
		}
		if union != nil {
			kids = append(kids, union)
		}
		all = all && union == k
	}
	return kids, all
}

// choose returns the part of n that a filter element with n's name selects, n itself for all of it,
// or nil.
func choose(n *Node, f *xmltree.Element) *Node {
	if len(f.Attrs) > 0 {
		return nil // no data node has attributes
	}
	if len(f.Kids) == 0 {
		if f.Value() != "" && !equalTo(n, f) {
			return nil
		}
		return n
	}
	var content, rest []*xmltree.Element
	for _, k := range f.Kids {
		if len(k.Kids) == 0 && k.Value() != "" {
			content = append(content, k)
		} else {
			rest = append(rest, k)
		}
	}
	kept := map[*Node]bool{}
	for _, c := range content {
		at := slices.IndexFunc(n.Kids, func(k *Node) bool { return matches(k, c) && equalTo(k, c) })
		if at < 0 {
			return nil
		}
		kept[n.Kids[at]] = true
	}
	if len(rest) == 0 {
		return n
	}
	kids, all := selected(n, rest)
	if all {
		return n
	}
	if len(kids) == 0 && len(content) == 0 {
		return nil
	}
	return &Node{Schema: n.Schema, key: n.key, Kids: withKeys(n, kids, kept)}
}

// withKeys adds the keys of a list entry, and the nodes that content matched, to a selection.
func withKeys(n *Node, kids []*Node, kept map[*Node]bool) []*Node {
	var all []*Node
	for _, k := range n.Kids {
		isKey := n.Schema.Kind == schema.List && slices.Contains(n.Schema.Keys, k.Schema.Name) && k.Schema.Module == n.Schema.Module
		if (isKey || kept[k]) && !slices.Contains(kids, k) {
			all = append(all, k)
		}
	}
	return append(all, kids...)
}

// equalTo compares a leaf with the text of a filter, both in canonical form.
func equalTo(n *Node, f *xmltree.Element) bool {
	if n.Schema.Kind != schema.Leaf && n.Schema.Kind != schema.LeafList {
		return false
	}
	if value, err := n.Schema.Type.Canonical(f.Text, f.Namespace); err == nil {
		return value.Text == n.Value.Text
	}
	return f.Value() == n.Value.Text
}
