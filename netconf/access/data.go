// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
)

// permits decides about one node (RFC 8341 section 3.4.5). denied reports whether an ancestor is
// marked default-deny-all.
func (c *Checker) permits(path *tree.Path, operation string, denied bool) bool {
	s := path.Schema
	for _, r := range c.rules {
		if r.rpc != "" || r.note != "" || !r.covers(s.Module.Name, operation) {
			continue
		}
		if r.path == nil || covers(r.path, path) {
			return r.permit
		}
	}
	switch {
	case denied || s.DenyAll, operation != read && s.DenyWrite:
		return false
	}
	return c.policy.permits[operation]
}

// covers reports whether a rule's path is the node's or an ancestor's.
func covers(rule []step, path *tree.Path) bool {
	all := path.Steps()
	if len(all) < len(rule) {
		return false
	}
	for i, s := range rule {
		have := all[i]
		if s.name != have.Schema.Name || s.space != have.Schema.Module.Namespace {
			return false
		}
		values := strings.Split(have.Key, "\x00")
		for at, name := range have.Schema.Keys {
			if want, has := s.keys[name]; has && (at >= len(values) || values[at] != want) {
				return false
			}
		}
	}
	return true
}

// uniform reports whether the decision about a node is that about all its descendants: then a whole
// subtree needs one decision.
func (c *Checker) uniform(path *tree.Path, operation string, denied bool) bool {
	key := sameKey{path.Schema, operation, denied}
	if known, has := c.same[key]; has {
		return known
	}
	same := !slices.ContainsFunc(c.rules, func(r rule) bool { return r.path != nil && atOrBelow(r.path, path) }) &&
		c.sameBelow(path.Schema, path.Schema, operation)
	c.same[key] = same
	return same
}

// atOrBelow reports whether a rule's path leads to the node or a descendant, keys aside.
func atOrBelow(rule []step, path *tree.Path) bool {
	all := path.Steps()
	if len(rule) <= len(all) {
		return slices.ContainsFunc(rule, func(s step) bool { return len(s.keys) > 0 })
	}
	for i, have := range all {
		if rule[i].name != have.Schema.Name || rule[i].space != have.Schema.Module.Namespace {
			return false
		}
	}
	return true
}

// sameBelow compares modules and markers of all descendants with those of top.
func (c *Checker) sameBelow(s, top *schema.Node, operation string) bool {
	for _, k := range s.Children {
		if k.DenyAll && !top.DenyAll || operation != read && k.DenyWrite && !top.DenyWrite {
			return false
		}
		if k.Module != top.Module && slices.ContainsFunc(c.rules, func(r rule) bool { return r.module != "*" }) {
			return false
		}
		if !c.sameBelow(k, top, operation) {
			return false
		}
	}
	return true
}

// Read returns the part of a datastore that the user may read.
func (c *Checker) Read(root *tree.Node) *tree.Node {
	if !c.policy.enabled {
		return root
	}
	return c.readable(root, nil, false)
}

func (c *Checker) readable(n *tree.Node, path *tree.Path, denied bool) *tree.Node {
	kids := make([]*tree.Node, 0, len(n.Kids))
	changed := false
	for _, k := range n.Kids {
		here := path.To(k)
		inner := denied || k.Schema.DenyAll
		switch {
		case !c.permits(here, read, denied):
			changed = true
			continue
		case len(k.Kids) > 0 && !c.uniform(here, read, denied):
			part := c.readable(k, here, inner)
			changed = changed || part != k
			k = part
		}
		kids = append(kids, k)
	}
	if !changed {
		return n
	}
	if path == nil {
		return &tree.Node{Schema: n.Schema, Kids: kids}
	}
	return tree.Inner(n.Schema, kids)
}

var accessOf = map[tree.Operation]string{tree.Create: create, tree.Delete: remove, tree.MergeIn: update}

// Write checks the differences of two datastores against the user's rights.
func (c *Checker) Write(old, new *tree.Node) *rpcerr.Error {
	if !c.policy.enabled || old == new {
		return nil
	}
	var denied *rpcerr.Error
	tree.Diff(old, new, func(change tree.Change) bool {
		n := change.New
		if n == nil {
			n = change.Old
		}
		denied = c.writable(n, change.Path, accessOf[change.Operation])
		return denied == nil
	})
	if denied != nil {
		c.denials.Writes.Add(1)
	}
	return denied
}

func (c *Checker) writable(n *tree.Node, path *tree.Path, operation string) *rpcerr.Error {
	marked := false
	for p := path.Parent; p != nil; p = p.Parent {
		marked = marked || p.Schema.DenyAll
	}
	// a container without presence is no data of its own
	if (n.Schema.Kind != schema.Container || n.Schema.Presence) && !c.permits(path, operation, marked) {
		return path.Fail(rpcerr.AccessDenied, "the user may not %s %s", operation, n.Schema.Name)
	}
	if c.uniform(path, operation, marked) && (n.Schema.Kind != schema.Container || n.Schema.Presence) {
		return nil
	}
	for _, k := range n.Kids {
		if err := c.writable(k, path.To(k), operation); err != nil {
			return err
		}
	}
	return nil
}
