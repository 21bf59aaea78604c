// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"weir/internal/nearest"
)

// Fields holds the places of a mapping's keys. Decode fills a struct's field of this type (tag
// `yaml:"-"`).
type Fields struct {
	Self   Place // the mapping itself
	keys   map[string]Place
	flawed bool
	flaws  map[string]bool // keys with a mistake at or below them, and keys suggested for unknown ones
}

// Flawed reports whether the mapping is missing or has a mistake; its values are then incomplete.
// If keys are given, only mistakes in these count.
func (f Fields) Flawed(keys ...string) bool {
	if f.keys == nil || len(keys) == 0 {
		return f.keys == nil || f.flawed
	}
	return slices.ContainsFunc(keys, func(key string) bool { return f.flaws[key] })
}

// At returns the place of a key's value, or of the mapping if the key is missing.
func (f Fields) At(key string) Place {
	if place, given := f.keys[key]; given {
		return place
	}
	return f.Self
}

// Has reports whether the file has the key.
func (f Fields) Has(key string) bool {
	_, given := f.keys[key]
	return given
}

// Text is a scalar with its place.
type Text struct {
	Value string
	Place Place
}

// Pair is one entry of a Map.
type Pair[T any] struct {
	Key   Text
	Value T
}

// Map is a mapping with user-defined keys, in file order.
type Map[T any] []Pair[T]

func (m *Map[T]) decodeMap(d *decoder, n *Node, path string) {
	for _, e := range n.Entries {
		pair := Pair[T]{Key: Text{e.Key, e.Place}}
		d.value(e.Value, reflect.ValueOf(&pair.Value).Elem(), join(path, e.Key))
		*m = append(*m, pair)
	}
}

type mapDecoder interface {
	decodeMap(d *decoder, n *Node, path string)
}

// Variables replace ${name} in scalars. Used collects the names that occur; it may be nil.
type Variables struct {
	Values map[string]string
	Names  []string // valid names, for suggestions
	Used   map[string]bool
}

// Decode fills the struct that into points to and adds mistakes to p. Keys are the fields' `yaml`
// tags; fields without a tag, and fields of missing keys, keep their values. Destinations are
// structs, pointers, slices, Map, Text, Fields, bool, string, integers, floats, Node pointers (the
// raw subtree), and encoding.TextUnmarshaler; errors of the last may carry advice (fault.Advice). A
// struct that is also a TextUnmarshaler accepts a single value as its short form. Without vars,
// "${" has no meaning.
//
// Tags have further options: `yaml:"name,required"` for a required key, `enum:"a,b"` for a string
// with a fixed set of values.
func (t *Tree) Decode(into any, vars *Variables, p *Problems) {
	t.Root.Decode("", into, vars, p)
}

// Decode is Tree.Decode for the part of a file that path names in messages.
func (n *Node) Decode(path string, into any, vars *Variables, p *Problems) {
	d := &decoder{vars: vars, problems: p}
	d.value(n, reflect.ValueOf(into).Elem(), path)
}

// Get returns the value of a mapping's key, or nil.
func (n *Node) Get(key string) *Node {
	for _, e := range n.Entries {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

type decoder struct {
	vars     *Variables
	problems *Problems
}

func (d *decoder) complain(place Place, path, format string, args ...any) {
	d.advise(place, "", path, format, args...)
}

// advise is complain with separate advice.
func (d *decoder) advise(place Place, try, path, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if path != "" {
		message = path + ": " + message
	}
	d.problems.Add(place, try, "%s", message)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var (
	fieldsType = reflect.TypeFor[Fields]()
	textType   = reflect.TypeFor[Text]()
	nodeType   = reflect.TypeFor[*Node]()
)

func (d *decoder) value(n *Node, out reflect.Value, path string) {
	if out.Type() == nodeType {
		out.Set(reflect.ValueOf(n))
		return
	}
	if n.Kind == Null {
		d.complain(n.Place, path, "no value is given; leave the key out for the default")
		return
	}
	if out.Kind() == reflect.Pointer {
		out.Set(reflect.New(out.Type().Elem()))
		d.value(n, out.Elem(), path)
		return
	}
	if n.Kind == Scalar {
		d.scalar(n, out, path)
		return
	}
	if m, ok := out.Addr().Interface().(mapDecoder); ok && n.Kind == Mapping {
		m.decodeMap(d, n, path)
		return
	}
	switch {
	case n.Kind == Mapping && out.Kind() == reflect.Struct && out.Type() != textType && hasKeys(out.Type()):
		d.mapping(n, out, path)
	case n.Kind == Sequence && out.Kind() == reflect.Slice && !isMap(out):
		for i, item := range n.Items {
			element := reflect.New(out.Type().Elem()).Elem()
			d.value(item, element, fmt.Sprintf("%s[%d]", path, i))
			out.Set(reflect.Append(out, element))
		}
	default:
		d.complain(n.Place, path, "expected %s, found %s", wanted(out), n.Kind)
	}
}

func isMap(out reflect.Value) bool {
	_, ok := out.Addr().Interface().(mapDecoder)
	return ok
}

func hasKeys(t reflect.Type) bool { return len(keysOf(t).keys) > 0 }

// known caches the keys of types, like encoding/json: tags are slow to read, and never change.
var known sync.Map // reflect.Type to *keySet

// keySet holds the keys of a struct.
type keySet struct {
	keys   []key
	names  []string
	byName map[string]int
	fields []int // indexes of fields of type Fields
}

func keysOf(t reflect.Type) *keySet {
	if have, found := known.Load(t); found {
		return have.(*keySet)
	}
	set := &keySet{keys: readKeys(t), byName: map[string]int{}}
	for i, k := range set.keys {
		set.names = append(set.names, k.name)
		set.byName[k.name] = i
	}
	for i := range t.NumField() {
		if t.Field(i).Type == fieldsType {
			set.fields = append(set.fields, i)
		}
	}
	known.Store(t, set)
	return set
}

// readKeys returns the keys in the order of the struct's fields.
func readKeys(t reflect.Type) (keys []key) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			for _, inner := range readKeys(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				keys = append(keys, inner)
			}
		} else if name != "" && name != "-" {
			keys = append(keys, key{name, []int{i}, options == "required", words(f.Tag.Get("enum")), f.Tag.Get("doc"), f.Tag.Get("schema")})
		}
	}
	return keys
}

type key struct {
	name     string
	index    []int
	required bool
	enum     []string
	doc      string
	schema   string
}

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// mapping fills a struct; embedded struct fields without a tag share their keys with it.
func (d *decoder) mapping(n *Node, out reflect.Value, path string) {
	set := keysOf(out.Type())
	fields := Fields{Self: n.Place, keys: make(map[string]Place, len(n.Entries))}
	found := d.problems.Len()
	fields.flaws = map[string]bool{}
	for _, e := range n.Entries {
		if now := renamed(out, e.Key, e.Value.Text); now != "" {
			d.problems.Add(e.Place, "write "+now, "%s: renamed: write %s", join(path, e.Key), now)
			fields.flaws[e.Key] = true
			continue
		}
		i, valid := set.byName[e.Key]
		if !valid {
			fields.flaws[d.unknown(e, set.names, path)] = true
			continue
		}
		k := &set.keys[i]
		fields.keys[e.Key] = e.Value.Place
		if k.required && e.Value.Kind == Null {
			d.advise(e.Value.Place, fmt.Sprintf("write a value behind %q", k.name+":"), join(path, k.name), "no value is given")
			fields.flaws[k.name] = true
			continue
		}
		field := out.FieldByIndex(k.index)
		before := d.problems.Len()
		d.value(e.Value, field, join(path, e.Key))
		if d.problems.Len() == before && k.enum != nil && !slices.Contains(k.enum, field.String()) {
			d.notOne(e, out, field.String(), k.enum, path)
		}
		if d.problems.Len() > before {
			fields.flaws[k.name] = true
		}
	}
	for _, k := range set.keys {
		if _, given := fields.keys[k.name]; k.required && !given && !fields.flaws[k.name] {
			d.problems.Add(n.Place, fmt.Sprintf("add %q", k.name+": ..."), "key %q is missing%s", k.name, in(path))
		}
	}
	fields.flawed = d.problems.Len() > found
	setFields(out, fields)
}

// setFields stores the places in a struct with a field for them.
func setFields(out reflect.Value, fields Fields) {
	if out.Kind() != reflect.Struct {
		return
	}
	for _, i := range keysOf(out.Type()).fields {
		out.Field(i).Set(reflect.ValueOf(fields))
	}
}

// notOne adds a mistake for a value outside of its enumeration.
func (d *decoder) notOne(e Entry, out reflect.Value, value string, enum []string, path string) {
	if now := renamed(out, e.Key, value); now != "" {
		d.advise(e.Value.Place, "write "+now, join(path, e.Key), "%q was renamed: write %s", value, now)
		return
	}
	d.complain(e.Value.Place, join(path, e.Key), "%q is not one of %s%s", value, strings.Join(enum, ", "), nearest.Hint(value, enum))
}

// Renamer is a struct with former keys or values. Renamed returns the current spelling of one, as
// "mode: shape", or "".
type Renamer interface {
	Renamed(key, value string) string
}

// renamed returns the current spelling of a key or value that out no longer has; "" for none.
func renamed(out reflect.Value, key, value string) string {
	if r, is := out.Addr().Interface().(Renamer); is {
		return r.Renamed(key, value)
	}
	return ""
}

// unknown complains of an unknown key and returns the suggested one, or "".
func (d *decoder) unknown(e Entry, names []string, path string) (near string) {
	near = nearest.Of(e.Key, names)
	hint, try := fmt.Sprintf("; valid here: %s", strings.Join(names, ", ")), ""
	if near != "" {
		hint, try = fmt.Sprintf(" (did you mean %q?)", near), fmt.Sprintf("write %q instead of %q", near, e.Key)
	}
	d.problems.Add(e.Place, try, "unknown key %q%s%s", e.Key, in(path), hint)
	return near
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

func wanted(out reflect.Value) string {
	_, reads := out.Addr().Interface().(encoding.TextUnmarshaler)
	switch kind := out.Kind(); {
	case isMap(out):
		return Mapping.String()
	case kind == reflect.Struct && out.Type() != textType && hasKeys(out.Type()) && reads:
		return "a single value or a mapping (key: value)"
	case kind == reflect.Struct && out.Type() != textType && hasKeys(out.Type()):
		return Mapping.String()
	case kind == reflect.Slice && reads:
		return "a single value or a list"
	case kind == reflect.Slice:
		return Sequence.String()
	case kind == reflect.Bool:
		return "true or false"
	}
	return Scalar.String()
}
