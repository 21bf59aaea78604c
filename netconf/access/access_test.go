// SPDX-License-Identifier: Apache-2.0

package access

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

func load(t testing.TB) *schema.Set {
	t.Helper()
	set, err := schema.Load(append(modules.Sources(false), schema.Source{Name: "bench@2026-01-01"}, schema.Source{Name: "more@2026-01-01"}),
		modules.Files, os.DirFS("../server/testdata"), os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// edited merges XML into a datastore.
func edited(t testing.TB, set *schema.Set, root *tree.Node, text string) *tree.Node {
	t.Helper()
	x, err := xmltree.Parse([]byte(`<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">`+text+`</config>`), xmltree.Limits{})
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	next, errs := tree.Edit(set, root, x, tree.MergeIn, false)
	if len(errs) > 0 {
		t.Fatalf("%v: %s", errs[0], text)
	}
	return next
}

const nacm = `<nacm xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-acm">%s</nacm>`

/*
 * Random rules and trees beside a slow oracle: it decides about each node alone, in the steps of
 * RFC 8341 section 3.4.5, on paths as text. It shares no code with the package.
 */

// ruleText is a rule of the oracle; the empty path means no rule-type.
type ruleText struct{ module, path, operations, action string }

// paths are rule paths: names only, or with keys. The prefix of a name is its module.
var paths = []string{
	"/bench:bench", "/bench:bench/bench:port", "/bench:bench/bench:port[bench:name='p1']", "/bench:bench/bench:secret",
	"/bench:bench/bench:port[bench:name='p2']/more:label", "/bench:bench/more:vault", "/bench:bench/more:hidden", "/bench:bench/bench:port/bench:on",
	"/bench:bench/bench:port/bench:rate", "/bench:bench/bench:rule[bench:id='2']",
}

func (r ruleText) xml(i int) string {
	path := ""
	if r.path != "" {
		path = `<path xmlns:bench="urn:weir:test:bench" xmlns:more="urn:weir:test:more">` + r.path + `</path>`
	}
	return fmt.Sprintf(`<rule><name>r%d</name><module-name>%s</module-name>%s<access-operations>%s</access-operations><action>%s</action></rule>`,
		i, r.module, path, r.operations, r.action)
}

func randomRules(r *rand.Rand) (all []ruleText) {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	for range r.IntN(5) {
		all = append(all, ruleText{
			module:     one("*", "*", "bench", "more"),
			path:       one(append([]string{"", ""}, paths...)...),
			operations: one("*", "read", "create", "update", "delete", "read update", "create delete"),
			action:     one("permit", "deny"),
		})
	}
	return all
}

// policyText is the container nacm of the oracle.
type policyText struct {
	read, write string
	rules       []ruleText
}

func (p policyText) xml() string {
	rules := ""
	for i, r := range p.rules {
		rules += r.xml(i)
	}
	list := "<rule-list><name>l</name><group>g</group>" + rules + "</rule-list>"
	return fmt.Sprintf(nacm, "<read-default>"+p.read+"</read-default><write-default>"+p.write+"</write-default>"+list)
}

// matches reports whether a rule's path is the node's or an ancestor's. Steps of the node are
// MODULE:NAME with keys, as [bench:name='p1'].
func matches(rule string, node []string) bool {
	steps := strings.Split(strings.TrimPrefix(rule, "/"), "/")
	if len(steps) > len(node) {
		return false
	}
	for i, s := range steps {
		if name, _, _ := strings.Cut(node[i], "["); s != name && s != node[i] {
			return false
		}
	}
	return true
}

// allows decides about one node.
func (p policyText) allows(node []string, operation string, denyAll, denyWrite bool) bool {
	module, _, _ := strings.Cut(node[len(node)-1], ":")
	for _, r := range p.rules {
		if r.module != "*" && r.module != module || r.operations != "*" && !slices.Contains(strings.Fields(r.operations), operation) {
			continue
		}
		if r.path == "" || matches(r.path, node) {
			return r.action == "permit"
		}
	}
	if denyAll || operation != "read" && denyWrite {
		return false
	}
	if operation == "read" {
		return p.read == "permit"
	}
	return p.write == "permit"
}

func stepText(n *tree.Node) string {
	text := n.Schema.Module.Name + ":" + n.Schema.Name
	if n.Schema.Kind == schema.List {
		text += "[bench:" + n.Schema.Keys[0] + "='" + n.Key() + "']"
	}
	return text
}

// readable lists the paths that the oracle shows.
func (p policyText) readable(n *tree.Node, path []string, denyAll bool, all []string) []string {
	for _, k := range n.Kids {
		at, marked := append(slices.Clone(path), stepText(k)), denyAll || k.Schema.DenyAll
		if p.allows(at, "read", marked, false) {
			all = p.readable(k, at, marked, append(all, strings.Join(at, "/")+":"+k.Value.Text))
		}
	}
	return all
}

func flat(n *tree.Node, path []string, all []string) []string {
	for _, k := range n.Kids {
		at := append(slices.Clone(path), stepText(k))
		all = flat(k, at, append(all, strings.Join(at, "/")+":"+k.Value.Text))
	}
	return all
}

// mayWrite is the oracle for an edit: each node that only one of both trees has, or that has
// another value, needs its right. A container without presence is no data of its own.
func (p policyText) mayWrite(old, next *tree.Node, path []string, denyAll bool) bool {
	find := func(list []*tree.Node, n *tree.Node) *tree.Node {
		for _, k := range list {
			if k.Schema == n.Schema && k.Key() == n.Key() {
				return k
			}
		}
		return nil
	}
	var whole func(n *tree.Node, path []string, operation string, denyAll bool) bool
	whole = func(n *tree.Node, path []string, operation string, denyAll bool) bool {
		at, marked := append(slices.Clone(path), stepText(n)), denyAll || n.Schema.DenyAll
		if (n.Schema.Kind != schema.Container || n.Schema.Presence) && !p.allows(at, operation, marked, n.Schema.DenyWrite) {
			return false
		}
		return !slices.ContainsFunc(n.Kids, func(k *tree.Node) bool { return !whole(k, at, operation, marked) })
	}
	for _, k := range old.Kids {
		if find(next.Kids, k) == nil && !whole(k, path, "delete", denyAll) {
			return false
		}
	}
	for _, k := range next.Kids {
		at, marked := append(slices.Clone(path), stepText(k)), denyAll || k.Schema.DenyAll
		had := find(old.Kids, k)
		switch {
		case had == nil:
			if !whole(k, path, "create", denyAll) {
				return false
			}
		case had.Value.Text != k.Value.Text:
			if !p.allows(at, "update", marked, k.Schema.DenyWrite) {
				return false
			}
		case !p.mayWrite(had, k, at, marked):
			return false
		}
	}
	return true
}

// randomTree returns XML of random nodes.
func randomTree(r *rand.Rand) string {
	var b strings.Builder
	maybe := func(text string, args ...any) {
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, text, args...)
		}
	}
	b.WriteString(`<bench xmlns="urn:weir:test:bench" xmlns:m="urn:weir:test:more">`)
	maybe(`<speed>%d</speed>`, 1+r.IntN(3))
	maybe(`<secret>s%d</secret>`, r.IntN(3))
	maybe(`<m:note>n%d</m:note>`, r.IntN(2))
	maybe(`<m:hidden>h%d</m:hidden>`, r.IntN(2))
	maybe(`<m:vault><m:code>%d</m:code></m:vault>`, r.IntN(2))
	for i := range 3 {
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, `<port><name>p%d</name><rate>%d</rate>`, i, r.IntN(2))
			maybe(`<on/>`)
			maybe(`<m:label>l%d</m:label>`, r.IntN(2))
			maybe(`<m:fixed>f%d</m:fixed>`, r.IntN(2))
			b.WriteString(`</port>`)
		}
	}
	maybe(`<rule><id>1</id></rule><rule><id>2</id></rule>`)
	b.WriteString(`</bench>`)
	return b.String()
}

func TestDecisionsAgreeWithASlowOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	set := load(t)
	reads, writes := map[bool]int{}, map[bool]int{}
	for i := range 5000 {
		p := policyText{[]string{"permit", "deny"}[r.IntN(2)], []string{"permit", "deny"}[r.IntN(2)], randomRules(r)}
		c := New(edited(t, set, tree.Root(set), p.xml())).For(User{Name: "u", Groups: []string{"g"}}, &Denials{})
		old, next := edited(t, set, tree.Root(set), randomTree(r)), edited(t, set, tree.Root(set), randomTree(r))
		if r.IntN(2) == 0 {
			next = edited(t, set, old, randomTree(r))
		}
		for range 2 { // the second time with the decisions of the first one
			got, want := flat(c.Read(old), nil, nil), p.readable(old, nil, false, nil)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d: %+v\ntree:\n%s\nshows:\n%s\nwant:\n%s", i, p, strings.Join(flat(old, nil, nil), "\n"), strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			may := c.Write(old, next) == nil
			if want := p.mayWrite(old, next, nil, false); may != want {
				t.Fatalf("round %d: %+v\nold:\n%s\nnew:\n%s\npermitted: %v, want %v", i, p, strings.Join(flat(old, nil, nil), "\n"), strings.Join(flat(next, nil, nil), "\n"), may, want)
			}
			reads[len(got) == len(flat(old, nil, nil))]++
			writes[may]++
		}
	}
	t.Logf("everything shown: %v; edit permitted: %v", reads, writes)
}

// The order of entries that the user orders is content: rule-lists are such a list, and the first
// match decides.
func TestAMoveNeedsTheRightToUpdate(t *testing.T) {
	set := load(t)
	old := edited(t, set, tree.Root(set), `<bench xmlns="urn:weir:test:bench"><rule><id>1</id></rule><rule><id>2</id></rule></bench>`)
	next := edited(t, set, old, `<bench xmlns="urn:weir:test:bench"><rule xmlns:y="urn:ietf:params:xml:ns:yang:1" y:insert="first"><id>2</id></rule></bench>`)
	for write, want := range map[string]bool{"permit": true, "deny": false} {
		c := New(edited(t, set, tree.Root(set), policyText{"permit", write, nil}.xml())).For(User{Name: "u", Groups: []string{"g"}}, &Denials{})
		if may := c.Write(old, next) == nil; may != want {
			t.Errorf("write-default %s: a move is permitted: %v, want %v", write, may, want)
		}
	}
}
