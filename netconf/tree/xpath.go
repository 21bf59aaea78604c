// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"

	"github.com/antchfx/xpath"

	"weir/netconf/schema"
)

// ErrTooMuchWork is the error of an XPath expression that visits too many nodes.
var ErrTooMuchWork = errors.New("the expression visits too many nodes")

// maxMoves bounds the moves of one evaluation from node to node.
const maxMoves = 5_000_000

// XPath returns the nodes that an expression selects, with their descendants, ancestors and the
// keys of lists (RFC 6241 section 8.9).
func XPath(root *Node, expression string, prefixes map[string]string) (selection *Node, err error) {
	if len(expression) > 4096 {
		return nil, errors.New("the expression is longer than 4096 bytes")
	}
	compiled, err := xpath.CompileWithNS(expression, prefixes)
	if err != nil {
		return nil, fmt.Errorf("compile XPath: %w", err)
	}
	defer func() { // the library panics on some expressions
		if r := recover(); r != nil {
			if r == ErrTooMuchWork {
				err = ErrTooMuchWork
			} else {
				err = fmt.Errorf("evaluate XPath: %v", r)
			}
		}
	}()
	moves := 0
	start := &navigator{stack: []spot{{node: root}}, moves: &moves}
	iterator, is := compiled.Evaluate(start).(*xpath.NodeIterator)
	if !is {
		return nil, errors.New("evaluate XPath: the result is no node set")
	}
	whole, through := map[*Node]bool{}, map[*Node]bool{}
	for iterator.MoveNext() {
		found := iterator.Current().(*navigator)
		whole[found.top().node] = true
		for _, s := range found.stack {
			through[s.node] = true
		}
	}
	return keep(root, whole, through), nil
}

// keep copies the ancestors of a selection.
func keep(n *Node, whole, through map[*Node]bool) *Node {
	if whole[n] {
		return n
	}
	var kids []*Node
	for _, k := range n.Kids {
		if through[k] {
			kids = append(kids, keep(k, whole, through))
		}
	}
	if n.Schema.Kind == schema.List {
		kids = withKeys(n, kids, nil)
	}
	return &Node{Schema: n.Schema, key: n.key, Kids: kids}
}

// spot is a node and its place among its siblings.
type spot struct {
	node *Node
	at   int
	text bool // the text below a leaf
}

// navigator walks a tree for the library; the bottom of its stack is the root.
type navigator struct {
	stack []spot
	moves *int
}

func (n *navigator) top() spot { return n.stack[len(n.stack)-1] }

func (n *navigator) count() {
	if *n.moves++; *n.moves > maxMoves {
		panic(ErrTooMuchWork)
	}
}

func (n *navigator) leaf() bool {
	k := n.top().node.Schema.Kind
	return k == schema.Leaf || k == schema.LeafList
}

func (n *navigator) NodeType() xpath.NodeType {
	switch {
	case n.top().text:
		return xpath.TextNode
	case len(n.stack) == 1:
		return xpath.RootNode
	}
	return xpath.ElementNode
}

func (n *navigator) LocalName() string {
	if n.top().text {
		return ""
	}
	return n.top().node.Schema.Name
}

func (n *navigator) Prefix() string { return "" }

func (n *navigator) NamespaceURL() string { return n.top().node.Schema.Module.Namespace }

func (n *navigator) Value() string { return textOf(n.top().node) }

func textOf(n *Node) string {
	if n.Schema.Kind == schema.Leaf || n.Schema.Kind == schema.LeafList {
		return n.Value.Text
	}
	text := ""
	for _, k := range n.Kids {
		text += textOf(k)
	}
	return text
}

func (n *navigator) Copy() xpath.NodeNavigator {
	n.count()
	return &navigator{stack: append([]spot(nil), n.stack...), moves: n.moves}
}

func (n *navigator) MoveToRoot() { n.stack = n.stack[:1] }

func (n *navigator) MoveToParent() bool {
	n.count()
	if len(n.stack) == 1 {
		return false
	}
	n.stack = n.stack[:len(n.stack)-1]
	return true
}

func (n *navigator) MoveToNextAttribute() bool { return false }

func (n *navigator) MoveToChild() bool {
	n.count()
	top := n.top()
	switch {
	case top.text:
		return false
	case len(n.stack) > 1 && n.leaf():
		if top.node.Value.Text == "" {
			return false
		}
		n.stack = append(n.stack, spot{node: top.node, text: true})
		return true
	case len(top.node.Kids) == 0:
		return false
	}
	n.stack = append(n.stack, spot{node: top.node.Kids[0]})
	return true
}

func (n *navigator) to(at int) bool {
	n.count()
	if len(n.stack) == 1 || n.top().text {
		return false
	}
	siblings := n.stack[len(n.stack)-2].node.Kids
	if at < 0 || at >= len(siblings) || at == n.top().at {
		return false
	}
	n.stack[len(n.stack)-1] = spot{node: siblings[at], at: at}
	return true
}

func (n *navigator) MoveToFirst() bool    { return n.to(0) }
func (n *navigator) MoveToNext() bool     { return n.to(n.top().at + 1) }
func (n *navigator) MoveToPrevious() bool { return n.to(n.top().at - 1) }

func (n *navigator) MoveTo(other xpath.NodeNavigator) bool {
	o, is := other.(*navigator)
	if !is {
		return false
	}
	n.stack = append(n.stack[:0], o.stack...)
	return true
}
