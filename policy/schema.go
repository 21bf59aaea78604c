package policy

import (
	"reflect"

	"weir/internal/yamlfile"
)

//go:generate go run ./schemagen ../docs/schema/policy.schema.json

// Schema returns the JSON Schema of policy files.
func Schema() ([]byte, error) {
	return yamlfile.Schema(reflect.TypeFor[file](), "https://weir.invalid/schema/policy/1", "Weir policy")
}
