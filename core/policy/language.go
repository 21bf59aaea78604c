// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"reflect"

	"weir/internal/yamlfile"
)

// SelectorKind is one way to say which traffic is meant, as far as the file goes.
type SelectorKind struct {
	Key string // in a scope
	Doc string // for the schema
	// Sample is a value of the type that the file's is: "", 0 or false, or one that reads itself
	// (encoding.TextUnmarshaler). Schema is the file's JSON Schema where that does not tell, or "".
	Sample any
	Schema string
	// Parse returns the one form of what the file says and its words, or an error that says how to
	// write it.
	Parse func(text string) (canonical, words string, err error)
	// Warn says what of a text that Parse takes is probably not meant, or ""; may be nil.
	Warn func(text string) string
	// Enclosing lists texts of the same kind whose traffic includes that of text whatever the host
	// is like, nearest first; may be nil.
	Enclosing func(text string) []string
	// Everything says that all traffic of the host is meant.
	Everything bool
}

// Grammar is what one room adds to the file. Its structs are those of yamlfile and given by zero
// values.
type Grammar struct {
	Module string
	// Scope has the keys of a scope, and Section those of the whole file; nil for none.
	Scope, Section any
	// Treats names the keys of a scope of which one is enough to make the room treat it.
	Treats []string
	// Read makes treatments of what was read. It may complain of the file at once, and is not
	// called for it again.
	Read func(*Draft)
	// Warn looks at a policy without mistakes; may be nil.
	Warn func(*Policy) []string
}

// Language is all that a policy file may say. Make it with [NewLanguage]; it is safe for concurrent
// use.
type Language struct {
	selectors []SelectorKind
	modules   []Grammar
	absent    map[string]string
	scope     *yamlfile.Union // scopeKeys, selectors, rooms that have keys of a scope
	file      *yamlfile.Union // fileKeys, rooms that have sections
	selector  reflect.Type
	core      []string   // keys of a scope that are no room's
	keys      [][]string // of a scope, room by room
}

// fileKeys are the spine's own keys of the file.
type fileKeys struct {
	yamlfile.Fields `yaml:"-"`
	Version         int                          `yaml:"version,required" doc:"Version of the format: 1."`
	Scopes          yamlfile.Map[*yamlfile.Node] `yaml:"scopes" doc:"What is treated, each under a name of your own. Required where no section treats the host."`
}

// scopeKeys are the spine's own keys of a scope.
type scopeKeys struct {
	yamlfile.Fields `yaml:"-"`
	Parent          string `yaml:"parent" doc:"Name of the scope whose treatment it shares with its siblings; what is its traffic is the parent's too."`
	Shadow          bool   `yaml:"shadow" doc:"Count what would be done, and do nothing."`
}

// NewLanguage joins kinds of selectors and rooms. Absent are keys, of scopes and of the file, that
// other builds have, each with the room that they belong to. Keys that two of them claim are an
// error.
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

// selectorKeys is a struct with one field for each kind of selector.
func selectorKeys(kinds []SelectorKind) reflect.Type {
	fields := make([]reflect.StructField, len(kinds))
	for i, k := range kinds {
		fields[i] = reflect.StructField{Name: fmt.Sprintf("Kind%d", i), Type: reflect.PointerTo(reflect.TypeOf(k.Sample)),
			Tag: reflect.StructTag(fmt.Sprintf("yaml:%q doc:%q schema:%q", k.Key, k.Doc, k.Schema))}
	}
	return reflect.StructOf(fields)
}

// kind returns a kind of selectors by its key.
func (l *Language) kind(key string) (SelectorKind, bool) {
	for _, k := range l.selectors {
		if k.Key == key {
			return k, true
		}
	}
	return SelectorKind{}, false
}

// Enclosing lists the selectors whose traffic includes that of s whatever the host is like, the
// nearest first.
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

// Keys lists every key that a policy file may have, as "scopes.egress.rate", for tests of
// references.
func (l *Language) Keys() []string {
	all := yamlfile.Keys(l.file.Type())
	for _, key := range yamlfile.Keys(l.scope.Type()) {
		all = append(all, "scopes."+key)
	}
	return all
}

// Reference is a key of a policy file and the room that it belongs to, "" for the spine's own.
type Reference struct {
	Module string
	yamlfile.Reference
}

// References are the keys of a file, and those of one scope: its selectors are told by
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

// Selectors are the kinds of selectors, in the order in which messages name them.
func (l *Language) Selectors() []SelectorKind { return l.selectors }
