// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/netconf/modules"
	"weir/netconf/schema"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
)

/*
 * Random edits beside a slow oracle: text nodes in ordered slices, changed by the sentences of
 * RFC 6241 section 7.2 and RFC 7950 sections 7.5.8, 7.6.7, 7.7.9, 7.8.6 and 7.9.6. The oracle has
 * its own description of the module bench and shares no code with the package.
 */

// shape describes a node of the module bench.
type shape struct {
	name    string
	kind    byte     // c container, p presence container, l list, f leaf, s leaf-list
	key     string   // of a list
	ordered bool     // by the user
	pick    []string // values of a leaf; the last one is invalid
	branch  string   // case of the choice mode
	kids    []shape
}

var benchShape = shape{name: "bench", kind: 'c', kids: []shape{
	{name: "speed", kind: 'f', pick: []string{"1", "20", "300", "4000"}},
	{name: "secret", kind: 'f', pick: []string{"a", "b", "a"}},
	{name: "tag", kind: 's', pick: []string{"x", "y", "z", "u", "v", "w"}},
	{name: "plain", kind: 'f', pick: []string{"", "", "no"}, branch: "plain"},
	{name: "depth", kind: 'f', pick: []string{"1", "2", "256"}, branch: "rich"},
	{name: "width", kind: 'f', pick: []string{"3", "4", "-1"}, branch: "rich"},
	{name: "port", kind: 'l', key: "name", kids: []shape{
		{name: "name", kind: 'f', pick: []string{"p1", "p2", "p3", "p4", "123456789"}},
		{name: "rate", kind: 'f', pick: []string{"7", "8", "x"}},
		{name: "on", kind: 'p', kids: []shape{{name: "level", kind: 'f', pick: []string{"1", "3", "300"}}}},
	}},
	{name: "rule", kind: 'l', key: "id", ordered: true, kids: []shape{{name: "id", kind: 'f', pick: []string{"1", "2", "3", "4", "5", "999"}}}},
}}

// item is a node of the oracle, or an element of an edit with an operation.
type item struct {
	shape *shape
	text  string // of a leaf
	kids  []*item
	// Of an edit:
	op, insert, at string
	noKey          bool
}

func (n *item) clone() *item {
	if n == nil {
		return nil
	}
	c := *n
	c.kids = nil
	for _, k := range n.kids {
		c.kids = append(c.kids, k.clone())
	}
	return &c
}

// id is the text that identifies the item among its siblings.
func (n *item) id() string {
	switch n.shape.kind {
	case 'l':
		return n.shape.name + "=" + n.keyText()
	case 's':
		return n.shape.name + "=" + n.text
	}
	return n.shape.name
}

func (n *item) keyText() string {
	for _, k := range n.kids {
		if k.shape.name == n.shape.key {
			return k.text
		}
	}
	return ""
}

func (n *item) find(id string) int {
	return slices.IndexFunc(n.kids, func(k *item) bool { return k.id() == id })
}

// edited is the oracle: it applies an element to a parent, and returns the tag of the error.
func (n *item) edited(x *item, inherited string) (tag string) {
	op := inherited
	if x.op != "" {
		op = x.op
	}
	if op == "bad" {
		return "bad-attribute"
	}
	if x.insert == "bad" {
		return "bad-attribute"
	}
	leaf := x.shape.kind == 'f' || x.shape.kind == 's'
	if x.shape.kind == 'l' {
		if x.noKey {
			return "missing-element"
		}
		for _, k := range x.kids {
			if k.shape.name == x.shape.key && k.invalid() {
				return "invalid-value"
			}
		}
	}
	if leaf && x.invalid() && (op != "delete" && op != "remove" || x.shape.kind == 's') {
		return "invalid-value"
	}
	at := n.find(x.id())
	switch op {
	case "delete":
		if at < 0 {
			return "data-missing"
		}
		n.kids = slices.Delete(n.kids, at, at+1)
		return ""
	case "remove":
		if at >= 0 {
			n.kids = slices.Delete(n.kids, at, at+1)
		}
		return ""
	case "create":
		if at >= 0 {
			return "data-exists"
		}
	case "none":
		if at < 0 && x.shape.kind != 'c' {
			if x.onlyRemoves() {
				return ""
			}
			return "data-missing"
		}
		if leaf {
			return ""
		}
	}
	next := &item{shape: x.shape, text: x.text}
	if !leaf {
		pass := op
		if op == "create" || op == "replace" {
			pass = "merge"
		}
		if at >= 0 && op != "replace" {
			next = n.kids[at].clone()
		}
		if tag := next.editedBy(x.kids, pass); tag != "" {
			return tag
		}
		if x.shape.kind == 'c' && len(next.kids) == 0 { // exists only with children
			if at >= 0 {
				n.kids = slices.Delete(n.kids, at, at+1)
			}
			return ""
		}
	}
	if at >= 0 && (x.insert == "" || !x.shape.ordered) {
		n.kids[at] = next
		return ""
	}
	if at < 0 {
		n.kids = slices.DeleteFunc(n.kids, func(k *item) bool {
			return x.shape.branch != "" && k.shape.branch != "" && k.shape.branch != x.shape.branch
		})
	} else {
		n.kids = slices.Delete(n.kids, at, at+1)
	}
	return n.insertedAt(next, x)
}

// insertedAt puts an entry where the attributes of its element say.
func (n *item) insertedAt(next, x *item) (tag string) {
	where := len(n.kids)
	if x.shape.ordered {
		switch x.insert {
		case "first":
			if first := slices.IndexFunc(n.kids, func(k *item) bool { return k.shape == x.shape }); first >= 0 {
				where = first
			}
		case "before", "after":
			at := n.find(x.shape.name + "=" + x.at)
			if at < 0 {
				return "bad-attribute"
			}
			where = at
			if x.insert == "after" {
				where++
			}
		}
	}
	n.kids = slices.Insert(n.kids, where, next)
	return ""
}

// editedBy applies the children of an element.
func (n *item) editedBy(elements []*item, op string) (tag string) {
	branch := ""
	for _, x := range elements {
		if x.op == "delete" || x.op == "remove" || x.op == "bad" || x.shape.branch == "" {
			continue
		}
		if branch != "" && branch != x.shape.branch {
			return "bad-element"
		}
		branch = x.shape.branch
	}
	for _, x := range elements {
		if n.shape.kind == 'l' && x.shape.name == n.shape.key && n.find(x.id()) < 0 {
			n.kids = slices.Insert(n.kids, 0, &item{shape: x.shape, text: x.text})
			continue
		}
		if tag := n.edited(x, op); tag != "" {
			return tag
		}
	}
	return ""
}

func (x *item) invalid() bool {
	return len(x.shape.pick) > 0 && x.shape.kind == 'f' && x.shape.name != "secret" && x.text == x.shape.pick[len(x.shape.pick)-1]
}

func (x *item) onlyRemoves() bool {
	found := false
	for _, k := range x.kids {
		switch {
		case k.op != "" && k.op != "remove":
			return false
		case k.op != "":
			found = true
		case len(k.kids) > 0:
			if !k.onlyRemoves() {
				return false
			}
			found = true
		}
	}
	return found
}

// random returns a random element.
func (s *shape) random(r *rand.Rand, depth int) *item {
	x := &item{shape: s}
	if r.IntN(3) == 0 {
		x.op = []string{"merge", "replace", "create", "delete", "remove", "bad"}[min(r.IntN(60)/11, 5)]
	}
	switch s.kind {
	case 'f', 's':
		most := len(s.pick) - 1
		if s.kind == 's' || r.IntN(40) == 0 {
			most++
		}
		x.text = s.pick[r.IntN(most)]
		return x
	case 'l':
		x.noKey = r.IntN(60) == 0
		if !x.noKey {
			key := s.kids[0].random(r, depth+1)
			key.op = ""
			x.kids = append(x.kids, key)
		}
		if s.ordered && r.IntN(2) == 0 {
			x.insert = []string{"first", "last", "before", "after", "bad"}[min(r.IntN(33)/8, 4)]
			x.at = s.kids[0].pick[r.IntN(len(s.kids[0].pick)-1)]
		}
	}
	for range r.IntN(3) + r.IntN(3)*r.IntN(8)/(depth*4+1) {
		k := &s.kids[r.IntN(len(s.kids))]
		if k.name != s.key {
			x.kids = append(x.kids, k.random(r, depth+1))
		}
	}
	return x
}

const (
	benchSpace = "urn:weir:test:bench"
	baseSpace  = "urn:ietf:params:xml:ns:netconf:base:1.0"
)

// xml writes an item as XML.
func (x *item) xml(b *strings.Builder) {
	fmt.Fprintf(b, `<%s xmlns="%s"`, x.shape.name, benchSpace)
	if x.op != "" {
		fmt.Fprintf(b, ` xmlns:nc="%s" nc:operation="%s"`, baseSpace, x.op)
	}
	if x.insert != "" {
		fmt.Fprintf(b, ` xmlns:y="urn:ietf:params:xml:ns:yang:1" y:insert="%s"`, x.insert)
		if x.insert == "before" || x.insert == "after" {
			fmt.Fprintf(b, ` xmlns:b="%s" y:key="[b:id='%s']"`, benchSpace, x.at)
		}
	}
	b.WriteString(">" + x.text)
	for _, k := range x.kids {
		k.xml(b)
	}
	b.WriteString("</" + x.shape.name + ">")
}

// flat lists the paths of all nodes: sorted, but entries ordered by the user keep their order.
func (n *item) flat(path string, all []string) []string {
	order := 0
	for _, k := range n.kids {
		at := path + "/" + k.id()
		if k.shape.ordered {
			at = fmt.Sprintf("%s/%s#%d", path, k.id(), order)
			order++
		}
		if k.shape.kind == 'f' {
			all = append(all, at+":"+k.text)
		} else {
			all = append(all, at)
		}
		all = k.flat(at, all)
	}
	return all
}

func flatTree(n *tree.Node, path string, all []string) []string {
	order := 0
	for _, k := range n.Kids {
		at := path + "/" + k.Schema.Name
		if k.Schema.Kind == schema.List || k.Schema.Kind == schema.LeafList {
			at += "=" + k.Key()
		}
		if k.Schema.ByUser {
			at += fmt.Sprintf("#%d", order)
			order++
		}
		if k.Schema.Kind == schema.Leaf {
			all = append(all, at+":"+k.Value.Text)
		} else {
			all = append(all, at)
		}
		all = flatTree(k, at, all)
	}
	return all
}

func sorted(all []string) string {
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func loadBench(t testing.TB) *schema.Set {
	t.Helper()
	set, err := schema.Load(append(modules.Sources(false), schema.Source{Name: "bench@2026-01-01"}), modules.Files, os.DirFS("../server/testdata"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestEditsAgreeWithASlowOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	set := loadBench(t)
	root, model := tree.Root(set), &item{shape: &shape{kind: 'c'}}
	edits := 100_000
	if testing.Short() {
		edits = 10_000
	}
	tags := map[string]int{}
	for i := range edits {
		def := []tree.Operation{tree.MergeIn, tree.MergeIn, tree.None, tree.Replace}[min(r.IntN(40)/13, 3)]
		x := benchShape.random(r, 0)
		var b strings.Builder
		fmt.Fprintf(&b, `<config xmlns="%s">`, baseSpace)
		x.xml(&b)
		b.WriteString("</config>")
		config, err := xmltree.Parse([]byte(b.String()), xmltree.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		before := sorted(flatTree(root, "", nil))
		next, errs := tree.Edit(set, root, config, def, false)
		if after := sorted(flatTree(root, "", nil)); after != before {
			t.Fatalf("edit %d changed the former tree:\n%s\nbefore:\n%s\nafter:\n%s", i, b.String(), before, after)
		}
		want, op := model.clone(), string(def)
		if def == tree.Replace {
			want, op = &item{shape: model.shape}, "merge"
		}
		tag := want.edited(x, op)
		if tag != "" {
			want = model
		}
		got := ""
		if len(errs) > 0 {
			got = string(errs[0].Tag)
		}
		have, expect := sorted(flatTree(next, "", nil)), sorted(want.flat("", nil))
		if got != tag || have != expect {
			t.Fatalf("edit %d, default operation %s:\n%s\nbefore:\n%s\ngot %q:\n%s\nwant %q:\n%s", i, def, b.String(), before, got, have, tag, expect)
		}
		root, model = next, want
		tags[tag]++
	}
	t.Logf("outcomes: %v", tags)
	for _, tag := range []string{"", "data-missing", "data-exists", "invalid-value", "missing-element", "bad-attribute", "bad-element"} {
		if tags[tag] == 0 {
			t.Errorf("no edit ended with %q", tag)
		}
	}
}
