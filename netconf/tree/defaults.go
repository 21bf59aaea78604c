// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"weir/netconf/schema"
)

// Defaults is a mode of RFC 6243 section 3.
type Defaults string

const (
	Explicit  Defaults = "explicit" // the basic mode: nodes that a client has set
	ReportAll Defaults = "report-all"
	Trim      Defaults = "trim"
	Tagged    Defaults = "report-all-tagged"
)

// WithDefaults returns the tree as a mode shows it.
func WithDefaults(n *Node, mode Defaults) *Node {
	switch mode {
	case ReportAll, Tagged:
		return fill(n, mode == Tagged)
	case Trim:
		return trimmed(n)
	}
	return n
}

// fill adds default leaves.
func fill(n *Node, tagged bool) *Node {
	present := map[*schema.Node]uint64{}
	kids := make([]*Node, 0, len(n.Kids)+4)
	for _, k := range n.Kids {
		present[k.Schema]++
		switch k.Schema.Kind {
		case schema.Leaf:
			if tagged && isDefault(k) {
				k = &Node{Schema: k.Schema, Value: k.Value, Default: true}
			}
			kids = append(kids, k)
		case schema.LeafList, schema.AnyData:
			kids = append(kids, k)
		default:
			kids = append(kids, fill(k, tagged))
		}
	}
	var visit func(children []*schema.Node)
	visit = func(children []*schema.Node) {
		for _, s := range children {
			if s.When != nil && !holds(s.When, n) {
				continue
			}
			switch s.Kind {
			case schema.Choice:
				visit(activeCase(s, present))
			case schema.Container:
				if !s.Presence && present[s] == 0 && s.Config {
					if k := fill(&Node{Schema: s}, tagged); len(k.Kids) > 0 {
						kids = append(kids, k)
					}
				}
			case schema.Leaf, schema.LeafList:
				if present[s] == 0 && s.Config {
					kids = append(kids, defaultsOf(s, tagged)...)
				}
			}
		}
	}
	visit(n.Schema.Children)
	return &Node{Schema: n.Schema, key: n.key, Kids: kids}
}

func defaultsOf(s *schema.Node, tagged bool) (all []*Node) {
	for _, text := range s.Defaults {
		n := Leaf(s, schema.Value{Text: text})
		n.Default = tagged
		all = append(all, n)
	}
	return all
}

// activeCase returns the children of the case that has nodes, or of the default case.
func activeCase(choice *schema.Node, present map[*schema.Node]uint64) []*schema.Node {
	for _, c := range choice.Children {
		if anyPresent(c, present) {
			return c.Children
		}
	}
	for _, c := range choice.Children {
		if choice.Default != "" && c.Name == choice.Default {
			return c.Children
		}
	}
	return nil
}

func isDefault(n *Node) bool {
	return len(n.Schema.Defaults) == 1 && n.Schema.Config && n.Schema.Defaults[0] == n.Value.Text
}

// trimmed removes leaves that hold their default.
func trimmed(n *Node) *Node {
	kids := make([]*Node, 0, len(n.Kids))
	for _, k := range n.Kids {
		switch {
		case k.Schema.Kind == schema.Leaf && isDefault(k):
			continue
		case len(k.Kids) > 0:
			if k = trimmed(k); len(k.Kids) == 0 && k.Schema.Kind == schema.Container && !k.Schema.Presence {
				continue
			}
		}
		kids = append(kids, k)
	}
	return &Node{Schema: n.Schema, key: n.key, Kids: kids}
}
