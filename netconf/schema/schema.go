// SPDX-License-Identifier: Apache-2.0

// Package schema turns YANG modules into trees of typed nodes: data, RPCs, actions and
// notifications. goyang parses; this package adds the order of children, features, when conditions
// and values in their canonical forms (RFC 7950 section 9).
//
// It covers the YANG that the served modules use. Load rejects a module with a must or unique
// statement on configuration, or a when condition other than derived-from-or-self.
package schema

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// Kind is the kind of a node.
type Kind int

const (
	Container Kind = iota
	List
	Leaf
	LeafList
	Choice
	Case
	AnyData
	RPC // an RPC or an action; its children are "input" and "output"
	Notification
)

// Module is one module of a set.
type Module struct {
	Name, Namespace, Revision, Prefix string
	Features                          []string // supported ones
	Import                            bool     // its types alone are used
	Source                            string   // its YANG text
	Version11                         bool
	identities                        map[string]*yang.Identity
	entry                             *yang.Entry
}

// Node is one schema node. Nodes are read-only after Load.
type Node struct {
	Name      string
	Module    *Module
	Kind      Kind
	Config    bool
	Presence  bool
	Mandatory bool
	Defaults  []string // canonical; of leaves and leaf-lists
	Default   string   // of a choice: the name of its default case
	Keys      []string
	Type      *Type
	Min, Max  uint64 // elements of a list; Max 0 is no limit
	ByUser    bool   // ordered by the user
	When      *When
	DenyWrite bool // nacm:default-deny-write
	DenyAll   bool // nacm:default-deny-all
	Parent    *Node
	Children  []*Node // cases and choices included
	data      map[string]*Node
}

// When is a condition derived-from-or-self(LEAF, IDENTITY) on a sibling leaf.
type When struct {
	Leaf     string
	Identity *yang.Identity
}

// Set is all modules together.
type Set struct {
	Modules []*Module // by name
	Top     *Node     // a container without a name that holds all data nodes
	RPCs    map[string]*Node
	Notes   map[string]*Node
	byName  map[string]*Module
	bySpace map[string]*Module
}

// Source is a module to load.
type Source struct {
	Name     string   // module[@revision]
	Features []string // supported; nil is none
	Import   bool     // for its types alone
}

// Load parses modules from folders of NAME-REVISION.yang files.
func Load(sources []Source, folders ...fs.FS) (*Set, error) {
	ms := yang.NewModules()
	set := &Set{RPCs: map[string]*Node{}, Notes: map[string]*Node{}, byName: map[string]*Module{}, bySpace: map[string]*Module{}}
	set.Top = &Node{Kind: Container, Config: true, data: map[string]*Node{}, Module: &Module{}}
	for _, s := range sources {
		text, err := read(s.Name, folders)
		if err != nil {
			return nil, err
		}
		if err := ms.Parse(text, s.Name+".yang"); err != nil {
			return nil, fmt.Errorf("parse module %s: %w", s.Name, err)
		}
		name, _, _ := strings.Cut(s.Name, "@")
		set.byName[name] = &Module{Name: name, Features: s.Features, Import: s.Import, Source: text, identities: map[string]*yang.Identity{}}
	}
	if errs := ms.Process(); len(errs) > 0 {
		return nil, fmt.Errorf("load modules: %w", errs[0])
	}
	for _, m := range set.byName {
		if err := set.describe(ms, m); err != nil {
			return nil, err
		}
		set.Modules = append(set.Modules, m)
	}
	slices.SortFunc(set.Modules, func(a, b *Module) int { return cmp.Compare(a.Name, b.Name) })
	return set, set.build()
}

func read(name string, folders []fs.FS) (string, error) {
	for _, folder := range folders {
		if text, err := fs.ReadFile(folder, strings.Replace(name, "@", "-", 1)+".yang"); err == nil {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("load module %s: no such file", name)
}

func (s *Set) describe(ms *yang.Modules, m *Module) error {
	parsed := ms.Modules[m.Name]
	if parsed == nil {
		return fmt.Errorf("load module %s: its file defines another module", m.Name)
	}
	entry, errs := ms.GetModule(m.Name)
	if len(errs) > 0 {
		return fmt.Errorf("load module %s: %w", m.Name, errs[0])
	}
	m.entry, m.Namespace, m.Prefix = entry, parsed.Namespace.Name, parsed.GetPrefix()
	m.Version11 = parsed.YangVersion != nil && parsed.YangVersion.Name == "1.1"
	for _, r := range parsed.Revision {
		m.Revision = max(m.Revision, r.Name)
	}
	for _, i := range parsed.Identity {
		m.identities[i.Name] = i
	}
	s.bySpace[m.Namespace] = m
	return nil
}

// build makes the nodes of all modules.
func (s *Set) build() error {
	b := &builder{set: s}
	for _, m := range s.Modules {
		if m.Import {
			continue
		}
		for _, e := range ordered(m.entry) {
			node, err := b.node(e, nil, true)
			if err != nil {
				return err
			}
			if node == nil {
				continue
			}
			switch node.Kind {
			case RPC:
				s.RPCs[m.Namespace+" "+node.Name] = node
			case Notification:
				s.Notes[m.Namespace+" "+node.Name] = node
			default:
				node.Parent = s.Top
				s.Top.Children = append(s.Top.Children, node)
			}
		}
	}
	s.Top.index()
	return nil
}

// index finds data nodes through choices and cases.
func (n *Node) index() {
	n.data = map[string]*Node{}
	var visit func(children []*Node)
	visit = func(children []*Node) {
		for _, k := range children {
			if k.Kind == Choice || k.Kind == Case {
				visit(k.Children)
				continue
			}
			n.data[k.Module.Namespace+" "+k.Name] = k
		}
	}
	visit(n.Children)
}

// Child returns the data node below n with a namespace and name, through choices and cases.
func (n *Node) Child(space, name string) *Node { return n.data[space+" "+name] }

// Sibling returns the data node below n of n's own module.
func (n *Node) Sibling(name string) *Node { return n.data[n.Module.Namespace+" "+name] }

// DataParent is the closest ancestor that appears in data.
func (n *Node) DataParent() *Node {
	p := n.Parent
	for p != nil && (p.Kind == Choice || p.Kind == Case) {
		p = p.Parent
	}
	return p
}

// Module returns a module by its namespace, or nil.
func (s *Set) Module(space string) *Module { return s.bySpace[space] }

// ByName returns a module by its name, or nil.
func (s *Set) ByName(name string) *Module { return s.byName[name] }

// ordered returns an entry's children in the order of their source.
func ordered(e *yang.Entry) []*yang.Entry {
	all := make([]*yang.Entry, 0, len(e.Dir))
	for _, k := range e.Dir {
		all = append(all, k)
	}
	place := func(k *yang.Entry) (string, int) {
		file, rest, _ := strings.Cut(k.Node.Statement().Location(), ":")
		at, _, _ := strings.Cut(rest, ":")
		number, _ := strconv.Atoi(at)
		return file, number
	}
	own, _ := place(e)
	slices.SortFunc(all, func(a, b *yang.Entry) int {
		fileA, lineA := place(a)
		fileB, lineB := place(b)
		if fileA != fileB { // augmentations follow
			if fileA == own {
				return -1
			} else if fileB == own {
				return 1
			}
		}
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB), cmp.Compare(a.Name, b.Name))
	})
	return all
}
