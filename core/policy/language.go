// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"reflect"

	"weir/internal/yamlfile"
)

// SelectorKind is the syntax of one kind of selector.
type SelectorKind struct {
	Key string // in a scope
	Doc string // for the schema
	// Sample is a value of the YAML type: "", 0, false, or an encoding.TextUnmarshaler. Schema is
	// the JSON Schema if the type does not determine it.
	Sample any
	Schema string
	// Parse returns the canonical form and a description, or an error with the correct syntax.
	Parse func(text string) (canonical, words string, err error)
	// Warn returns a warning about a valid text, or ""; may be nil.
	Warn func(text string) string
	// Enclosing lists texts of the same kind that include the traffic of text on any host, nearest
	// first; may be nil.
	Enclosing func(text string) []string
	// Everything reports that the selector matches all traffic of the host.
	Everything bool
}

// Grammar is a module's part of the file. Its structs follow yamlfile and are given as zero values.
type Grammar struct {
	Module string
	// Scope has the keys of a scope, Section those of the file; nil for none.
	Scope, Section any
	// Treats lists keys. The module treats a scope that has at least one of them.
	Treats []string
	// Read sets treatments or complains. It runs once per file.
	Read func(*Draft)
	// Warn returns warnings about a valid policy; may be nil.
	Warn func(*Policy) []string
}

// Language is the syntax of policy files. Create one with [NewLanguage]. It is safe for concurrent
// use.
type Language struct {
	selectors []SelectorKind
	modules   []Grammar
	absent    map[string]string
	scope     *yamlfile.Union // scopeKeys, selectors, modules with keys of a scope
	file      *yamlfile.Union // fileKeys, modules with sections
	selector  reflect.Type
	core      []string   // core's keys of a scope
	keys      [][]string // of a scope, by module
}

// fileKeys holds core's keys of the file.
type fileKeys struct {
	yamlfile.Fields `yaml:"-"`
	Version         int                          `yaml:"version,required" doc:"Version of the format: 1."`
	Scopes          yamlfile.Map[*yamlfile.Node] `yaml:"scopes" doc:"Traffic and its treatment, by scope; each scope has a name of your choice. Required unless the file has another section."`
}

// scopeKeys holds core's keys of a scope.
type scopeKeys struct {
	yamlfile.Fields `yaml:"-"`
	Parent          string `yaml:"parent" doc:"Name of the parent scope: its treatment applies to its own traffic and to the traffic of its children."`
	Shadow          bool   `yaml:"shadow" doc:"Only count, without any effect on traffic."`
}

// NewLanguage joins kinds of selectors and modules. absent maps keys of other builds, of scopes and
// of the file, to their modules. Two claims of a key are an error.
func NewLanguage(selectors []SelectorKind, modules []Grammar, absent map[string]string) (*Language, error) {
	l := &Language{selectors: selectors, modules: modules, absent: absent, selector: selectorKeys(selectors)}
	scope, file := []reflect.Type{reflect.TypeFor[scopeKeys](), l.selector}, []reflect.Type{reflect.TypeFor[fileKeys]()}
	for _, t := range scope {
		l.core = append(l.core, yamlfile.Names(t)...)
	}
	l.keys = make([][]string, len(modules))
	for i, g := range modules {
		if g.Scope != nil {
			scope = append(scope, reflect.TypeOf(g.Scope))
			l.keys[i] = yamlfile.Names(reflect.TypeOf(g.Scope))
		}
		if g.Section != nil {
			file = append(file, reflect.TypeOf(g.Section))
		}
	}
	var err error
	if l.scope, err = yamlfile.NewUnion(scope...); err != nil {
		return nil, fmt.Errorf("policy language: scopes: %w", err)
	}
	if l.file, err = yamlfile.NewUnion(file...); err != nil {
		return nil, fmt.Errorf("policy language: %w", err)
	}
	return l, nil
}

// selectorKeys returns a struct type with one field per kind of selector.
func selectorKeys(kinds []SelectorKind) reflect.Type {
	fields := make([]reflect.StructField, len(kinds))
	for i, k := range kinds {
		fields[i] = reflect.StructField{Name: fmt.Sprintf("Kind%d", i), Type: reflect.PointerTo(reflect.TypeOf(k.Sample)),
			Tag: reflect.StructTag(fmt.Sprintf("yaml:%q doc:%q schema:%q", k.Key, k.Doc, k.Schema))}
	}
	return reflect.StructOf(fields)
}

// kind returns the kind of selector of a key.
func (l *Language) kind(key string) (SelectorKind, bool) {
	for _, k := range l.selectors {
		if k.Key == key {
			return k, true
		}
	}
	return SelectorKind{}, false
}

// Enclosing lists the selectors that include the traffic of s on any host, nearest first.
func (p *Policy) Enclosing(s Selector) (all []Selector) {
	if k, known := p.language.kind(s.Kind); known && k.Enclosing != nil {
		for _, text := range k.Enclosing(s.Text) {
			if text, words, err := k.Parse(text); err == nil {
				all = append(all, Selector{k.Key, text, words})
			}
		}
	}
	for _, k := range p.language.selectors {
		if k.Everything && k.Key != s.Kind {
			if text, words, err := k.Parse("true"); err == nil {
				all = append(all, Selector{k.Key, text, words})
			}
		}
	}
	return all
}

// Schema returns the JSON Schema of policy files.
func (l *Language) Schema() ([]byte, error) {
	return yamlfile.Schema(l.file.Type(), "https://weir.invalid/schema/policy/1", "Weir policy",
		yamlfile.Inner{Key: "scopes", Name: "scope", Type: l.scope.Type()})
}

// Keys lists every key of a policy file, such as "scopes.egress.rate", for tests of documents.
func (l *Language) Keys() []string {
	all := yamlfile.Keys(l.file.Type())
	for _, key := range yamlfile.Keys(l.scope.Type()) {
		all = append(all, "scopes."+key)
	}
	return all
}

// Reference is a key of a policy file and its module, "" for core.
type Reference struct {
	Module string
	yamlfile.Reference
}

// References returns the keys of a file and of a scope, without selectors: see
// [Language.Selectors].
func (l *Language) References() (file, scope []Reference) {
	add := func(to *[]Reference, module string, t reflect.Type) {
		for _, r := range yamlfile.References(t) {
			*to = append(*to, Reference{module, r})
		}
	}
	add(&file, "", reflect.TypeFor[fileKeys]())
	add(&scope, "", reflect.TypeFor[scopeKeys]())
	for _, g := range l.modules {
		if g.Scope != nil {
			add(&scope, g.Module, reflect.TypeOf(g.Scope))
		}
		if g.Section != nil {
			add(&file, g.Module, reflect.TypeOf(g.Section))
		}
	}
	return file, scope
}

// Selectors returns the kinds of selectors in display order.
func (l *Language) Selectors() []SelectorKind { return l.selectors }
