// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// ShortForm is implemented by destinations with a form as a single value, to describe it in the
// schema.
type ShortForm interface {
	// ShortForm describes the valid text, with an example.
	ShortForm() string
}

// Schema returns the JSON Schema (draft 2020-12) of the files that Decode accepts for the struct's
// type. Descriptions come from `doc` tags. Every single value may also be text, since it may hold a
// ${parameter}; only Decode checks that text. A `schema` tag sets a field's schema if its type does
// not determine it, an [Inner] that of the raw values of a key.
func Schema(t reflect.Type, id, title string, inner ...Inner) ([]byte, error) {
	s := schema{defs: map[string]any{}, names: map[reflect.Type]string{}, inner: map[string]reflect.Type{}}
	for _, i := range inner {
		s.names[i.Type], s.inner[i.Key] = i.Name, i.Type
	}
	s.of(t)
	root := s.defs[s.name(t)].(map[string]any)
	delete(s.defs, s.name(t))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = id
	root["title"] = title
	root["$defs"] = s.defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema of %s: %w", t, err)
	}
	return append(text, '\n'), nil
}

// Inner describes the values of a mapping of raw nodes (Map[*Node]); Name is that of the
// definition.
type Inner struct {
	Key, Name string
	Type      reflect.Type
}

type schema struct {
	defs  map[string]any
	names map[reflect.Type]string // of types without a name
	inner map[string]reflect.Type // by key
}

func (s *schema) name(t reflect.Type) string {
	if name, given := s.names[t]; given {
		return name
	}
	return t.Name()
}

// of returns the schema of one type. Structs go to $defs under their name.
func (s *schema) of(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer && t != nodeType {
		return s.of(t.Elem())
	}
	instance := reflect.New(t).Interface()
	if described, ok := instance.(ShortForm); ok && t.Kind() != reflect.Struct && t.Kind() != reflect.Slice {
		return single(described.ShortForm())
	}
	_, reads := instance.(encoding.TextUnmarshaler)
	_, isMap := instance.(mapDecoder)
	switch {
	case t == nodeType:
		return map[string]any{}
	case t == textType:
		return single("")
	case isMap:
		pair := t.Elem()
		value, _ := pair.FieldByName("Value")
		return map[string]any{"type": "object", "additionalProperties": s.of(value.Type)}
	case t.Kind() == reflect.Struct:
		return s.withShort(instance, reads, s.structure(t))
	case t.Kind() == reflect.Slice:
		return s.withShort(instance, reads, map[string]any{"type": "array", "items": s.of(t.Elem())})
	case reads:
		return single("")
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, parameter()}}
	case reflect.Float64:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number"}, parameter()}}
	case reflect.String:
		return single("")
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, parameter()}}
}

// single is any value except a list or a mapping.
func single(doc string) map[string]any {
	out := map[string]any{"type": []string{"string", "number", "boolean"}}
	if doc != "" {
		out["description"] = doc
	}
	return out
}

// parameter is text that gets its value from ${name}.
func parameter() map[string]any {
	return map[string]any{"type": "string", "pattern": `\$\{[^}]+\}`}
}

func (s *schema) withShort(instance any, reads bool, long map[string]any) map[string]any {
	if !reads {
		return long
	}
	doc := ""
	if described, ok := instance.(ShortForm); ok {
		doc = described.ShortForm()
	}
	return map[string]any{"anyOf": []any{single(doc), long}}
}

// structure defines a struct once and refers to it.
func (s *schema) structure(t reflect.Type) map[string]any {
	ref := map[string]any{"$ref": "#/$defs/" + s.name(t)}
	if _, done := s.defs[s.name(t)]; done {
		return ref
	}
	properties, required := map[string]any{}, []string{}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	s.defs[s.name(t)] = out
	for _, k := range keysOf(t).keys {
		p := s.of(t.FieldByIndex(k.index).Type)
		if values, given := s.inner[k.name]; given {
			p = map[string]any{"type": "object", "additionalProperties": s.of(values)}
		}
		if len(k.enum) > 0 {
			p = map[string]any{"anyOf": []any{map[string]any{"enum": k.enum}, parameter()}}
		}
		if k.schema != "" {
			p = map[string]any{}
			if err := json.Unmarshal([]byte(k.schema), &p); err != nil {
				panic(fmt.Sprintf("schema tag of %s.%s: %v", t, k.name, err))
			}
		}
		if k.doc != "" {
			p["description"] = strings.TrimSpace(k.doc)
		}
		properties[k.name] = p
		if k.required {
			required = append(required, k.name)
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return ref
}

// Keys lists every possible key of a struct's files, as "links.rate", for tests of references.
func Keys(t reflect.Type) []string {
	var all []string
	walkKeys(t, "", map[reflect.Type]bool{}, &all)
	return all
}

func walkKeys(t reflect.Type, path string, above map[reflect.Type]bool, all *[]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if _, isMap := reflect.New(t).Interface().(mapDecoder); isMap {
			value, _ := t.Elem().FieldByName("Value")
			walkKeys(value.Type, path, above, all)
			return
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == textType || t == nodeType.Elem() || above[t] {
		return
	}
	above[t] = true
	for _, k := range keysOf(t).keys {
		*all = append(*all, join(path, k.name))
		walkKeys(t.FieldByIndex(k.index).Type, join(path, k.name), above, all)
	}
	delete(above, t)
}
