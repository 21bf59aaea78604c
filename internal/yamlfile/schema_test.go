// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSchema(t *testing.T) {
	text, err := Schema(reflect.TypeFor[needy](), "needy.schema.json", "Needy")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	any1 := []any{"string", "number", "boolean"}
	want := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "needy.schema.json", "title": "Needy", "$defs": map[string]any{},
		"type": "object", "additionalProperties": false, "required": []any{"name"},
		"properties": map[string]any{
			"name":  map[string]any{"type": any1, "description": "a name"},
			"shape": map[string]any{"anyOf": []any{map[string]any{"enum": []any{"round", "square"}}, map[string]any{"type": "string", "pattern": `\$\{[^}]+\}`}}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
}

func TestKeys(t *testing.T) {
	got := strings.Join(Keys(reflect.TypeFor[sample]()), " ")
	want := "title count octet factor links links.name links.rate links.delay links.keep short short.value short.level " +
		"long long.value long.level words raw must must.name must.shape"
	if got != want {
		t.Errorf("keys:\n got %s\nwant %s", got, want)
	}
}

func TestMerge(t *testing.T) {
	var all, first, second Problems
	at := Place{"f.yaml", 1, 2}
	first.Add(at, "do this", "a mistake")
	second.Add(at, "do this", "a mistake")
	second.Add(at, "", "another")
	all.Merge(&first, "")
	all.Merge(&second, " (with x=1)")
	err := all.Err("")
	if want := "f.yaml:1:2: a mistake\nf.yaml:1:2: another (with x=1)"; err == nil || err.Error() != want {
		t.Errorf("merged: %v, want %s", err, want)
	}
}
