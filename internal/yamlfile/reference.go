// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reference is one key of a struct's files, for the table of a reference. In Path NAME stands for a
// user-defined key.
type Reference struct {
	Path     string
	Doc      string // of the `doc` tag, without its full stop
	Required bool
	Values   []string // of the `enum` tag
}

// References lists the keys of a struct in field order, each followed by its own keys. A repeated
// struct is described once and referred to later.
func References(t reflect.Type) []Reference {
	r := references{seen: map[reflect.Type]string{}}
	r.walk(t, "")
	return r.all
}

type references struct {
	seen map[reflect.Type]string
	all  []Reference
}

func (r *references) walk(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if _, isMap := reflect.New(t).Interface().(mapDecoder); isMap {
			value, _ := t.Elem().FieldByName("Value")
			r.walk(value.Type, join(path, "NAME"))
			return
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == textType || t == nodeType.Elem() || !hasKeys(t) {
		return
	}
	if first, again := r.seen[t]; again {
		if last := len(r.all) - 1; last >= 0 {
			r.all[last].Doc += fmt.Sprintf("; its keys are those of `%s`", first)
		}
		return
	}
	r.seen[t] = path
	for _, k := range keysOf(t).keys {
		r.all = append(r.all, Reference{join(path, k.name), strings.TrimSuffix(strings.TrimSpace(k.doc), "."), k.required, k.enum})
		r.walk(t.FieldByIndex(k.index).Type, join(path, k.name))
	}
}

// Below returns the keys directly below a path, with their last names.
func Below(all []Reference, path string) (out []Reference) {
	for _, r := range all {
		rest := r.Path
		if path != "" {
			under, below := strings.CutPrefix(r.Path, path+".")
			if !below {
				continue
			}
			rest = under
		}
		if !strings.Contains(rest, ".") {
			r.Path = rest
			out = append(out, r)
		}
	}
	return slices.Clip(out)
}
