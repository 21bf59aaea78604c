// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"reflect"

	"weir/internal/yamlfile"
)

// Schema is the JSON Schema of specifications; docs/schema/tester.schema.json holds it.
func Schema() ([]byte, error) {
	return yamlfile.Schema(reflect.TypeFor[file](), "tester.schema.json", "Specification of a Weir tester run, version 1")
}

// References returns the keys of a specification, for the tables of docs/formats/tester.md.
func References() []yamlfile.Reference { return yamlfile.References(reflect.TypeFor[file]()) }
