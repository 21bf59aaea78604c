// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// builder makes nodes of goyang's entries.
type builder struct{ set *Set }

var kinds = map[yang.EntryKind]Kind{
	yang.ChoiceEntry: Choice, yang.CaseEntry: Case, yang.AnyDataEntry: AnyData, yang.AnyXMLEntry: AnyData,
	yang.InputEntry: Container, yang.OutputEntry: Container, yang.NotificationEntry: Notification,
}

// node returns nil for an entry with an unsupported feature.
func (b *builder) node(e *yang.Entry, parent *Node, config bool) (*Node, error) {
	module := b.set.bySpace[e.Namespace().Name]
	if module == nil {
		return nil, fmt.Errorf("load modules: node %s belongs to no module", e.Path())
	}
	if !b.supported(e) {
		return nil, nil
	}
	n := &Node{Name: e.Name, Module: module, Parent: parent, Config: config}
	if e.Config == yang.TSFalse {
		n.Config = false
	}
	n.Mandatory = e.Mandatory == yang.TSTrue
	n.Presence = len(e.Extra["presence"]) > 0
	b.extensions(n, e)
	if err := b.kind(n, e); err != nil {
		return nil, err
	}
	if err := b.conditions(n, e); err != nil {
		return nil, err
	}
	return n, b.children(n, e)
}

// extensions reads the markers of RFC 8341.
func (b *builder) extensions(n *Node, e *yang.Entry) {
	for _, x := range e.Exts {
		_, name, _ := strings.Cut(x.Keyword, ":")
		n.DenyWrite = n.DenyWrite || name == "default-deny-write"
		n.DenyAll = n.DenyAll || name == "default-deny-all"
	}
}

func (b *builder) kind(n *Node, e *yang.Entry) (err error) {
	known, special := kinds[e.Kind]
	switch {
	case e.RPC != nil:
		n.Kind = RPC
	case special:
		n.Kind = known
		n.Default, _ = e.SingleDefaultValue()
	case e.IsLeafList():
		n.Kind = LeafList
	case e.IsLeaf():
		n.Kind = Leaf
	case e.IsList():
		n.Kind, n.Keys = List, strings.Fields(e.Key)
	default:
		n.Kind = Container
	}
	if e.ListAttr != nil {
		n.Min, n.ByUser = e.ListAttr.MinElements, e.ListAttr.OrderedByUser
		if e.ListAttr.MaxElements < 1<<63 {
			n.Max = e.ListAttr.MaxElements
		}
	}
	if n.Kind != Leaf && n.Kind != LeafList {
		return nil
	}
	if n.Type, err = b.set.newType(e.Type, n.Module, e); err != nil {
		return fmt.Errorf("load %s: %w", e.Path(), err)
	}
	if !n.Mandatory {
		for _, text := range e.DefaultValues() {
			value, err := n.Type.Canonical(text, n.Module.resolve(b.set))
			if err != nil {
				return fmt.Errorf("load %s: default: %w", e.Path(), err)
			}
			n.Defaults = append(n.Defaults, value.Text)
		}
	}
	return nil
}

func (b *builder) children(n *Node, e *yang.Entry) error {
	list := ordered(e)
	if e.RPC != nil {
		list = nil
		for _, part := range []*yang.Entry{e.RPC.Input, e.RPC.Output} {
			if part != nil {
				list = append(list, part)
			}
		}
	}
	for _, k := range list {
		config := n.Config && n.Kind != RPC && n.Kind != Notification
		child, err := b.node(k, n, config)
		if err != nil {
			return err
		}
		if child == nil {
			continue
		}
		if n.Kind == Choice && child.Kind != Case { // a short case (RFC 7950 section 7.9.2)
			short := &Node{Name: child.Name, Module: child.Module, Kind: Case, Config: n.Config, Parent: n, Children: []*Node{child}}
			child.Parent, child = short, short
		}
		n.Children = append(n.Children, child)
	}
	slices.SortStableFunc(n.Children, func(a, b *Node) int { return n.rank(a) - n.rank(b) })
	n.index()
	return nil
}

// rank puts keys first, in their order (RFC 7950 section 7.8.5).
func (n *Node) rank(k *Node) int {
	if at := slices.Index(n.Keys, k.Name); at >= 0 && k.Kind == Leaf {
		return at
	}
	return len(n.Keys)
}

var derived = regexp.MustCompile(`^derived-from-or-self\(\s*([\w:.-]+)\s*,\s*['"]([\w:.-]+)['"]\s*\)$`)

// conditions reads the when condition and rejects constraints that nothing here evaluates.
func (b *builder) conditions(n *Node, e *yang.Entry) error {
	if n.Config {
		for _, word := range []string{"must", "unique"} {
			if len(e.Extra[word]) > 0 {
				return fmt.Errorf("load %s: a %s statement on configuration is not supported", e.Path(), word)
			}
		}
	}
	text := whenOf(e)
	if text == "" || !n.Config {
		return nil
	}
	found := derived.FindStringSubmatch(text)
	if found == nil {
		return fmt.Errorf("load %s: the condition %q is not supported", e.Path(), text)
	}
	identity, _, err := b.set.identity(found[2], n.Module.resolve(b.set))
	if err != nil {
		return fmt.Errorf("load %s: %w", e.Path(), err)
	}
	n.When = &When{Leaf: local(found[1]), Identity: identity}
	return nil
}

// whenOf returns the condition of an entry, or of the augmentation that it comes from.
func whenOf(e *yang.Entry) string {
	if text, has := e.GetWhenXPath(); has {
		return text
	}
	for parent := e.Node; parent != nil; parent = parent.ParentNode() {
		if a, is := parent.(*yang.Augment); is {
			if a.When != nil && parent == e.Node.ParentNode() {
				return a.When.Name
			}
			return ""
		}
	}
	return ""
}

func local(name string) string { return name[strings.LastIndex(name, ":")+1:] }

// supported evaluates if-feature statements (RFC 7950 section 7.20.2).
func (b *builder) supported(e *yang.Entry) bool {
	module := b.set.bySpace[e.Namespace().Name]
	for _, x := range e.Extra["if-feature"] {
		for _, v := range valuesOf(x) {
			if !b.expression(v.Name, module) {
				return false
			}
		}
	}
	return true
}

func valuesOf(x any) []*yang.Value {
	switch v := x.(type) {
	case *yang.Value:
		return []*yang.Value{v}
	case []*yang.Value:
		return v
	}
	return nil
}

func (b *builder) expression(text string, module *Module) bool {
	p := &features{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)), supported: func(name string) bool {
		prefix, feature, qualified := strings.Cut(name, ":")
		if !qualified {
			return slices.Contains(module.Features, name)
		}
		other := b.set.byPrefix(prefix, module)
		return other != nil && slices.Contains(other.Features, feature)
	}}
	return p.or()
}

// features evaluates an expression by recursive descent.
type features struct {
	words     []string
	supported func(string) bool
}

func (f *features) next() (word string) {
	if len(f.words) > 0 {
		word, f.words = f.words[0], f.words[1:]
	}
	return word
}

func (f *features) peek(word string) bool { return len(f.words) > 0 && f.words[0] == word }

func (f *features) or() bool {
	result := f.and()
	for f.peek("or") {
		f.next()
		right := f.and()
		result = result || right
	}
	return result
}

func (f *features) and() bool {
	result := f.factor()
	for f.peek("and") {
		f.next()
		right := f.factor()
		result = result && right
	}
	return result
}

func (f *features) factor() bool {
	switch word := f.next(); word {
	case "not":
		return !f.factor()
	case "(":
		result := f.or()
		f.next()
		return result
	default:
		return f.supported(word)
	}
}
