// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/jsonlite"
)

// schemaFiles are the fields of M-Lab's datatypes in the form of BigQuery schemas. A record with a
// field that is not there would be rejected by M-Lab's archive.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// field is a member of a record.
type field struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"` // STRING, INTEGER, FLOAT, BOOLEAN, TIMESTAMP or RECORD
	Mode   string  `json:"mode"` // REPEATED for a list
	Fields []field `json:"fields"`
}

// schemas reads all schemas once.
var schemas = sync.OnceValue(func() map[string][]field {
	found := map[string][]field{}
	names, _ := fs.Glob(schemaFiles, "schemas/*.json")
	for _, name := range names {
		var fields []field
		text, err := schemaFiles.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // an embedded file; a test reads all of them
		}
		found[strings.TrimSuffix(path.Base(name), ".json")] = fields
	}
	return found
})

// Fit returns nil if the record has the names and types of the datatype and no other member, or if
// the datatype has no schema. Members may be absent, and they and lists may be null.
func Fit(datatype string, text []byte) error {
	fields, known := schemas()[datatype]
	if !known {
		return nil
	}
	value, err := jsonlite.Parse(string(text))
	if err != nil {
		return err
	}
	var c comparison
	if err := c.object(fields, value, ""); err != nil {
		return err
	}
	return c.extra
}

// comparison is that of a record with a schema.
type comparison struct {
	extra error // first member that the schema lacks
}

func (c *comparison) object(fields []field, value *jsonlite.Value, at string) error {
	if value.Kind() != jsonlite.Object {
		return fmt.Errorf("%s is no object", name(at))
	}
	previous := ""
	for key, member := range value.Object { // sorted by key
		f := find(fields, key)
		switch {
		case f == nil && c.extra == nil:
			c.extra = fmt.Errorf("%s has the unknown member %q", name(at), key)
		case f == nil:
		case key == previous:
			return fmt.Errorf("%s has the member %q twice", name(at), key)
		default:
			if err := c.member(f, member, at+"."+key); err != nil {
				return err
			}
		}
		previous = key
	}
	return nil
}

// name is the path of a member for people.
func name(at string) string {
	if at == "" {
		return "the record"
	}
	return strings.TrimPrefix(at, ".")
}

func find(fields []field, key string) *field {
	for i := range fields {
		if fields[i].Name == key {
			return &fields[i]
		}
	}
	return nil
}

// member compares a value with the mode of a field.
func (c *comparison) member(f *field, value *jsonlite.Value, at string) error {
	if value.Kind() == jsonlite.Null {
		return nil
	}
	if f.Mode != "REPEATED" {
		return c.one(f, value, at)
	}
	if value.Kind() != jsonlite.Array {
		return fmt.Errorf("%s is no list", name(at))
	}
	for element := range value.Array {
		if err := c.one(f, element, at); err != nil {
			return err
		}
	}
	return nil
}

// one compares a value with the type of a field.
func (c *comparison) one(f *field, value *jsonlite.Value, at string) error {
	if f.Type == "RECORD" {
		return c.object(f.Fields, value, at)
	}
	err := errors.New("it has another JSON type")
	switch kind := value.Kind(); {
	case f.Type == "STRING" && kind == jsonlite.String, f.Type == "BOOLEAN" && (kind == jsonlite.True || kind == jsonlite.False):
		return nil
	case f.Type == "FLOAT" && kind == jsonlite.Number:
		_, err = value.Number().Float64()
	case f.Type == "INTEGER" && kind == jsonlite.Number:
		_, err = value.Number().Int64()
	case f.Type == "TIMESTAMP" && kind == jsonlite.String:
		_, err = time.Parse(time.RFC3339, value.String())
	}
	if err != nil {
		return fmt.Errorf("%s is no %s: %w", name(at), f.Type, err)
	}
	return nil
}
