// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"reflect"

	"weir/internal/yamlfile"
)

//go:generate go run ./internal/schema ../../docs/schema/scenario.schema.json

// Schema returns the JSON Schema of scenario files. It describes keys and kinds of values; Parse
// checks their meaning.
func Schema() ([]byte, error) {
	return yamlfile.Schema(reflect.TypeFor[file](), "scenario.schema.json", "Weir scenario")
}

// References returns the keys of a scenario, for the tables of docs/formats/scenario.md.
func References() []yamlfile.Reference { return yamlfile.References(reflect.TypeFor[file]()) }
