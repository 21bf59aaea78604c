// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"reflect"
)

// Union is a mapping with keys of several independent structs. Create it once with [NewUnion]. It
// is safe for concurrent use.
type Union struct {
	merged reflect.Type
	parts  []unionPart
}

// unionPart is one struct and the places of its keys in the merged one.
type unionPart struct {
	from  reflect.Type
	index [][]int // in the struct, one for each of its keys
	to    []int   // in the merged one
	spare []int   // fields of type Fields in the struct
}

// NewUnion joins structs for Decode. A key in two of them is an error.
func NewUnion(parts ...reflect.Type) (*Union, error) {
	u := &Union{}
	fields := []reflect.StructField{{Name: "Places", Type: fieldsType, Tag: `yaml:"-"`}}
	owner := map[string]reflect.Type{}
	for _, t := range parts {
		part := unionPart{from: t, spare: keysOf(t).fields}
		for _, k := range keysOf(t).keys {
			if other, twice := owner[k.name]; twice {
				return nil, fmt.Errorf("join keys: %s and %s both have %q", other, t, k.name)
			}
			owner[k.name] = t
			field := t.FieldByIndex(k.index)
			part.index, part.to = append(part.index, k.index), append(part.to, len(fields))
			fields = append(fields, reflect.StructField{Name: fmt.Sprintf("Key%d", len(fields)), Type: field.Type, Tag: field.Tag})
		}
		u.parts = append(u.parts, part)
	}
	u.merged = reflect.StructOf(fields)
	return u, nil
}

// Decode fills the structs that into points to, one for each part of the union and in its order,
// like [Node.Decode]. A mistake in the keys of one part shows in the [Fields] of all of them.
func (u *Union) Decode(n *Node, path string, into []any, vars *Variables, p *Problems) Fields {
	merged := reflect.New(u.merged)
	n.Decode(path, merged.Interface(), vars, p)
	fields := merged.Elem().Field(0).Interface().(Fields)
	if fields.Self == (Place{}) {
		fields.Self = n.Place // not a mapping
	}
	for i, part := range u.parts {
		out := reflect.ValueOf(into[i]).Elem()
		for k, index := range part.index {
			out.FieldByIndex(index).Set(merged.Elem().Field(part.to[k]))
		}
		for _, at := range part.spare {
			out.Field(at).Set(reflect.ValueOf(fields))
		}
	}
	return fields
}

// Names lists the keys of a struct in order.
func Names(t reflect.Type) []string { return keysOf(t).names }

// New makes a zero struct for each part, for Decode.
func (u *Union) New() []any {
	all := make([]any, len(u.parts))
	for i, part := range u.parts {
		all[i] = reflect.New(part.from).Interface()
	}
	return all
}

// Names lists the keys of all parts, in their order.
func (u *Union) Names() []string { return keysOf(u.merged).names }

// Type returns the struct with all keys, for [Schema] and [Keys].
func (u *Union) Type() reflect.Type { return u.merged }
