// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"weir/netconf/rpcerr"
	"weir/netconf/schema"
)

// Validate checks a datastore against the constraints of RFC 7950 section 8.3.3: mandatory nodes,
// numbers of elements and when conditions. Nodes shared with valid, which has passed, are skipped;
// valid may be nil.
func Validate(root, valid *Node) *rpcerr.Error { return validate(root, valid, nil) }

func validate(n, valid *Node, path *Path) *rpcerr.Error {
	if n == valid {
		return nil
	}
	present := map[*schema.Node]uint64{}
	for _, k := range n.Kids {
		present[k.Schema]++
	}
	if err := required(n, n.Schema.Children, present, path); err != nil {
		return err
	}
	var former *index
	if valid != nil {
		former = newIndex(valid.Kids)
	}
	for _, k := range n.Kids {
		if k.Schema.When != nil && !holds(k.Schema.When, n) {
			return path.To(k).fail(rpcerr.UnknownElement, "%s does not apply: its condition on %s is false", k.Schema.Name, k.Schema.When.Leaf).
				With("bad-element", k.Schema.Name)
		}
		if k.Schema.Kind == schema.Leaf || k.Schema.Kind == schema.LeafList {
			continue
		}
		var before *Node
		if former != nil {
			before = former.of(k)
		}
		if err := validate(k, before, path.To(k)); err != nil {
			return err
		}
	}
	return nil
}

func holds(w *schema.When, parent *Node) bool { return w.Holds(parent.Text(w.Leaf)) }

// required checks that mandatory children are present.
func required(n *Node, children []*schema.Node, present map[*schema.Node]uint64, path *Path) *rpcerr.Error {
	for _, s := range children {
		if !s.Config || s.When != nil && !holds(s.When, n) {
			continue
		}
		var err *rpcerr.Error
		switch s.Kind {
		case schema.Choice:
			err = requiredCase(n, s, present, path)
		case schema.List, schema.LeafList:
			err = enough(s, present[s], path)
		case schema.Container:
			if !s.Presence && present[s] == 0 { // its mandatory nodes count as the parent's
				err = required(&Node{Schema: s}, s.Children, map[*schema.Node]uint64{}, path.down(s, ""))
			}
		case schema.Leaf:
			if s.Mandatory && present[s] == 0 {
				err = path.down(s, "").fail(rpcerr.DataMissing, "the mandatory leaf %s is missing", s.Name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func requiredCase(n *Node, choice *schema.Node, present map[*schema.Node]uint64, path *Path) *rpcerr.Error {
	for _, c := range choice.Children {
		if anyPresent(c, present) {
			return required(n, c.Children, present, path)
		}
	}
	if !choice.Mandatory {
		return nil
	}
	err := path.fail(rpcerr.DataMissing, "the mandatory choice %s has no node", choice.Name).App("missing-choice")
	err.Info = append(err.Info, rpcerr.Info{Space: yangSpace, Name: "missing-choice", Text: choice.Name})
	return err
}

func anyPresent(s *schema.Node, present map[*schema.Node]uint64) bool {
	for _, k := range s.Children {
		if present[k] > 0 || (k.Kind == schema.Choice || k.Kind == schema.Case) && anyPresent(k, present) {
			return true
		}
	}
	return false
}

func enough(s *schema.Node, n uint64, path *Path) *rpcerr.Error {
	switch {
	case n < s.Min:
		return path.down(s, "").fail(rpcerr.Failed, "%s has %d entries, at least %d are needed", s.Name, n, s.Min).App("too-few-elements")
	case s.Max > 0 && n > s.Max:
		return path.down(s, "").fail(rpcerr.Failed, "%s has %d entries, at most %d are allowed", s.Name, n, s.Max).App("too-many-elements")
	}
	return nil
}
