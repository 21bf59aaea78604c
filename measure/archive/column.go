// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/jsonlite"
	"github.com/parquet-go/parquet-go"
)

// column is a node of a Parquet schema: a leaf, or a group with its members in the order of their
// names. All are optional or repeated.
type column struct {
	field
	leaf     int // number of the leaf, in the order of the file
	depth    int // repetition level of the elements of a list
	children []*column
}

// newColumns returns the columns of fields, sorted, and numbers their leaves from *next.
func newColumns(fields []field, depth int, next *int) []*column {
	fields = slices.Clone(fields)
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	var columns []*column
	for _, f := range fields {
		c := &column{field: f, depth: depth}
		if f.Mode == "REPEATED" {
			c.depth++
		}
		if f.Type == "RECORD" {
			c.children = newColumns(f.Fields, c.depth, next)
		} else {
			c.leaf = *next
			*next++
		}
		columns = append(columns, c)
	}
	return columns
}

// node is the column's part of the schema of a file.
func (c *column) node() parquet.Node {
	var n parquet.Node
	switch c.Type {
	case "RECORD":
		n = group(c.children)
	case "INTEGER":
		n = parquet.Int(64)
	case "FLOAT":
		n = parquet.Leaf(parquet.DoubleType)
	case "BOOLEAN":
		n = parquet.Leaf(parquet.BooleanType)
	case "TIMESTAMP":
		n = parquet.Timestamp(parquet.Microsecond)
	case "JSON":
		n = parquet.JSON()
	default:
		n = parquet.String()
	}
	if c.Mode == "REPEATED" {
		return parquet.Repeated(n)
	}
	return parquet.Optional(n)
}

func group(columns []*column) parquet.Group {
	g := parquet.Group{}
	for _, c := range columns {
		g[c.Name] = c.node()
	}
	return g
}

// shredder takes records apart into values of leaves, with the repetition and definition levels of
// Melnik et al., "Dremel" (VLDB 2010).
type shredder struct {
	leaves [][]parquet.Value
}

// member appends a member of an object, nil if it is absent. It must fit its field.
func (s *shredder) member(c *column, v *jsonlite.Value, repetition, definition int) {
	switch {
	case v == nil || v.Kind() == jsonlite.Null || c.Mode == "REPEATED" && v.Len() == 0:
		s.null(c, repetition, definition)
	case c.Mode == "REPEATED":
		for element := range v.Array {
			s.content(c, element, repetition, definition+1)
			repetition = c.depth
		}
	default:
		s.content(c, v, repetition, definition+1)
	}
}

func (s *shredder) content(c *column, v *jsonlite.Value, repetition, definition int) {
	if c.Type != "RECORD" {
		s.leaves[c.leaf] = append(s.leaves[c.leaf], c.value(v).Level(repetition, definition, c.leaf))
		return
	}
	for _, child := range c.children {
		s.member(child, v.Lookup(child.Name), repetition, definition)
	}
}

func (s *shredder) null(c *column, repetition, definition int) {
	if c.Type != "RECORD" {
		s.leaves[c.leaf] = append(s.leaves[c.leaf], parquet.NullValue().Level(repetition, definition, c.leaf))
		return
	}
	for _, child := range c.children {
		s.null(child, repetition, definition)
	}
}

// value converts a JSON value that fits its field.
func (c *column) value(v *jsonlite.Value) parquet.Value {
	switch c.Type {
	case "INTEGER":
		n, _ := v.Number().Int64()
		return parquet.Int64Value(n)
	case "FLOAT":
		n, _ := v.Number().Float64()
		return parquet.DoubleValue(n)
	case "BOOLEAN":
		return parquet.BooleanValue(v.Kind() == jsonlite.True)
	case "TIMESTAMP":
		t, _ := time.Parse(time.RFC3339, v.String())
		return parquet.Int64Value(t.UnixMicro())
	case "JSON":
		return parquet.ByteArrayValue([]byte(v.JSON()))
	}
	return parquet.ByteArrayValue([]byte(v.String()))
}

// row moves the values of a record into one row.
func (s *shredder) row(row parquet.Row) parquet.Row {
	for i, values := range s.leaves {
		row = append(row, values...)
		s.leaves[i] = values[:0]
	}
	return row
}
