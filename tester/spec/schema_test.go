// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"weir/tester/spec"
)

var update = flag.Bool("update", false, "write docs/schema/tester.schema.json")

func TestSchemaIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "schema", "tester.schema.json")
	want, err := spec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("docs/schema/tester.schema.json is not current: go test ./tester/spec -run Schema -update")
	}
}
