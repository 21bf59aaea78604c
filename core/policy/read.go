// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/infile"
	"weir/internal/yamlfile"
)

// MaxFile is the maximum size of a policy file in bytes: enough for the maximum number of scopes
// and comments.
const MaxFile = 8 << 20

var limits = yamlfile.Limits{Octets: MaxFile, Values: 500_000, Line: true}

const tryReference = "correct the file at the places named; docs/formats/policy.md describes the format"

// Load reads a policy file.
func (l *Language) Load(filename string) (*Policy, error) {
	text, err := ReadFile(filename)
	if err != nil {
		return nil, err
	}
	p, err := l.Parse(filename, text)
	if err != nil {
		return nil, err
	}
	p.Warnings = append(Exposed(filename), p.Warnings...)
	return p, nil
}

// Read parses a policy from a stream such as standard input.
func (l *Language) Read(from io.Reader) (*Policy, error) {
	text, err := policyFile.ReadOpen(from, inputName)
	if err != nil {
		return nil, err
	}
	return l.Parse(inputName, text)
}

const inputName = "standard input"

// ReadFile reads the text of a policy file.
func ReadFile(filename string) ([]byte, error) { return policyFile.Read(filename) }

var policyFile = infile.Kind{What: "policy", Most: MaxFile, Name: "name a policy file; docs/formats/policy.md has examples",
	Larger: "split the scopes over hosts, or leave comments out"}

// Exposed returns a warning if other users can change a policy file.
func Exposed(filename string) []string {
	for _, path := range []string{filename, filepath.Dir(filename)} {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&os.ModeSticky == 0 {
			return []string{fmt.Sprintf("%s: other users can change it (mode %s): chmod go-w %s", filename, mode.Perm(), path)}
		}
	}
	return nil
}

// rawScope is a scope with decoded keys.
type rawScope struct {
	name      yamlfile.Text
	own       *scopeKeys
	selectors any   // pointer to Language.selector
	modules   []any // as Language.modules; nil for a module without keys of a scope
	fields    yamlfile.Fields
}

// Parse parses the text of a policy file. Its errors are faults of status Usage with the place of
// every mistake.
func (l *Language) Parse(filename string, text []byte) (*Policy, error) {
	tree, err := yamlfile.ParseWithin(limits, filename, text)
	if err != nil {
		return nil, err
	}
	var problems yamlfile.Problems
	lacking := l.findAbsent(tree.Root, &problems)
	if n := tree.Root.Get("scopes"); n != nil && n.Kind == yamlfile.Null {
		problems.Add(n.Place, `write scopes below it, or "scopes: {}" for none`, "scopes: no value is given")
		n.Kind = yamlfile.Mapping // avoid a second message
	}
	file := l.file.New()
	l.file.Decode(tree.Root, "", file, nil, &problems)
	own := file[0].(*fileKeys)
	scopes := make([]rawScope, 0, len(own.Scopes))
	for _, entry := range own.Scopes {
		if entry.Key.Value == "" {
			problems.Add(entry.Key.Place, "name it, as backups: {...}", "scopes: one has an empty name")
			continue
		}
		scopes = append(scopes, l.decode(entry.Key, entry.Value, &problems))
	}
	if version := own.Version; version != 1 && (problems.Len() == 0 || version != 0) {
		problems.Add(own.At("version"), "", "version %d is unknown: this Weir reads version 1", version)
	}
	if !own.Has("scopes") && problems.Len() == 0 && len(tree.Root.Entries) == 1 { // only the version
		problems.Add(tree.Root.Place, `add "scopes: ..."`, `key "scopes" is missing`)
	}
	p := &Policy{written: map[string]written{}, language: l}
	l.build(p, scopes, file[1:], lacking, &problems)
	if err := problems.Err(tryReference); err != nil {
		return nil, err
	}
	for _, g := range l.modules {
		if g.Warn != nil {
			p.Warnings = append(p.Warnings, g.Warn(p)...)
		}
	}
	return p, nil
}

// findAbsent reports keys of modules that this build lacks and removes them, so that they are not
// reported as unknown too. It returns the scopes with such keys.
func (l *Language) findAbsent(root *yamlfile.Node, problems *yamlfile.Problems) map[string]bool {
	lacking := map[string]bool{}
	take := func(n *yamlfile.Node, path, scope string) {
		n.Entries = slices.DeleteFunc(n.Entries, func(e yamlfile.Entry) bool {
			module, absent := l.absent[e.Key]
			if absent {
				lacking[scope] = true
				problems.Add(e.Place, "remove it, or use a build of Weir with this module", "%s%s belongs to the module %s, which this build lacks", path, e.Key, module)
			}
			return absent
		})
	}
	take(root, "", "")
	if scopes := root.Get("scopes"); scopes != nil {
		for _, e := range scopes.Entries {
			take(e.Value, "scopes."+e.Key+".", e.Key)
		}
	}
	return lacking
}

// decode decodes the keys of one scope.
func (l *Language) decode(name yamlfile.Text, n *yamlfile.Node, problems *yamlfile.Problems) rawScope {
	parts := l.scope.New()
	s := rawScope{name: name, own: parts[0].(*scopeKeys), selectors: parts[1], fields: l.scope.Decode(n, "scopes."+name.Value, parts, nil, problems)}
	rest := parts[2:]
	for _, g := range l.modules {
		if g.Scope == nil {
			s.modules = append(s.modules, nil)
			continue
		}
		s.modules, rest = append(s.modules, rest[0]), rest[1:]
	}
	return s
}

// build builds the policy from decoded keys, module by module.
func (l *Language) build(p *Policy, raw []rawScope, sections []any, lacking map[string]bool, problems *yamlfile.Problems) {
	unread := problems.Len() > 0
	t := newTree(raw)
	t.check(problems)
	var sound []int                       // scopes without mistakes in core keys and selectors
	p.Scopes = make([]Scope, 0, len(raw)) // drafts point into it
	first := map[Selector]yamlfile.Text{}
	for i := range raw {
		s := &raw[i]
		if s.fields.Flawed(l.core...) {
			continue // avoid a second message
		}
		// A scope with an unreadable child may be a parent.
		selector, means := l.selectorOf(p, s, unread || t.parents[s.name.Value], problems)
		if other, twice := first[selector]; twice && means && selector.Kind != Group {
			problems.Add(s.name.Place, fmt.Sprintf("keep one of %s and %s", other.Value, s.name.Value),
				"scopes.%s: %s has a scope already, %s at %s: two scopes of the same traffic conflict",
				s.name.Value, selector, other.Value, other.Place)
		} else if means {
			first[selector] = s.name
		}
		sound = append(sound, i)
		p.Scopes = append(p.Scopes, Scope{Name: s.name.Value, Selector: selector, Parent: s.own.Parent, Shadow: s.own.Shadow, Treatments: Treatments{}})
		p.written[s.name.Value] = written{s.name.Place, s.fields}
	}
	for r, g := range l.modules {
		d := &Draft{Scopes: l.drafts(p, r, raw, sound, t), module: g.Module, policy: p, problems: problems}
		if g.Section != nil {
			d.Section, sections = sections[0], sections[1:]
		}
		g.Read(d)
	}
	for n, i := range sound {
		s := &p.Scopes[n]
		asks := slices.ContainsFunc(l.treats(), raw[i].fields.Has)
		if !asks && len(s.Treatments) == 0 && s.Parent == "" && !lacking[s.Name] && !raw[i].fields.Flawed() {
			problems.Add(raw[i].fields.Self, "", "scopes.%s: has no treatment: give %s", s.Name, orList(l.treats()))
		}
	}
}

// drafts returns the valid scopes for one module, without those with a mistake in its keys: missing
// values would cause further messages.
func (l *Language) drafts(p *Policy, module int, raw []rawScope, sound []int, t *tree) []DraftScope {
	drafts, place := make([]DraftScope, 0, len(sound)), map[int]int{}
	for n, i := range sound {
		keys := l.keys[module]
		if len(keys) > 0 && raw[i].fields.Flawed(keys...) {
			continue
		}
		place[i] = len(drafts)
		drafts = append(drafts, DraftScope{Scope: &p.Scopes[n], Keys: raw[i].modules[module], Above: -1, Depth: t.depth[i],
			IsParent: t.parents[raw[i].name.Value], fields: raw[i].fields})
	}
	for i, at := range place {
		if above, there := place[t.parent(i)]; there {
			drafts[at].Above = above
		}
	}
	return drafts
}

// treats lists the keys of scopes that start a treatment.
func (l *Language) treats() (all []string) {
	for _, g := range l.modules {
		all = append(all, g.Treats...)
	}
	return all
}

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// selectorOf parses the selector of a scope; means reports whether it has one. A parent may have
// none.
func (l *Language) selectorOf(p *Policy, s *rawScope, isParent bool, problems *yamlfile.Problems) (selector Selector, sound bool) {
	var given []Selector
	sound = true
	values := reflect.ValueOf(s.selectors).Elem()
	keys := make([]string, len(l.selectors))
	for i, k := range l.selectors {
		keys[i] = k.Key
		value := values.Field(i)
		if value.IsNil() || value.Elem().Kind() == reflect.Bool && !value.Elem().Bool() {
			continue
		}
		text, words, err := k.Parse(fmt.Sprint(value.Elem().Interface()))
		if err != nil {
			problems.Add(s.fields.At(k.Key), fault.Advice(err), "scopes.%s: %v", s.name.Value, err)
			sound = false
		}
		given = append(given, Selector{k.Key, text, words})
		if k.Warn == nil {
			continue
		}
		if doubt := k.Warn(fmt.Sprint(value.Elem().Interface())); doubt != "" {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s: scope %s: %s", s.fields.At(k.Key), s.name.Value, doubt))
		}
	}
	switch {
	case len(given) == 1:
		return given[0], sound
	case len(given) == 0 && isParent:
		return Selector{Kind: Group, Words: "its children"}, true
	}
	says := "has no selector"
	if len(given) > 1 {
		says = fmt.Sprintf("has %d selectors", len(given))
	}
	problems.Add(s.fields.Self, "", "scopes.%s: %s: give exactly one of %s, or none in a group, which is the parent of other scopes",
		s.name.Value, says, strings.Join(keys, ", "))
	return Selector{}, false
}
