// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v3"

	"weir/internal/yamlfile"
)

const (
	schemaFile    = "../../docs/schema/scenario.schema.json"
	referenceFile = "../../docs/formats/scenario.md"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("scenario.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("scenario.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaIsCurrent(t *testing.T) {
	want, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go generate ./lab/scenario", schemaFile)
	}
}

func TestShippedScenariosFollowTheSchema(t *testing.T) {
	schema := compileSchema(t)
	for _, name := range names() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema, s.Source); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchemaRefuses: mistakes that an editor finds with the schema alone.
func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	if err := validate(schema, valid); err != nil {
		t.Fatalf("the valid file: %v", err)
	}
	for _, c := range []struct{ old, new string }{
		{"rate: 10Mbit", "rat: 10Mbit"},
		{"version: 1\n", ""},
		{"hosts: [client, server]", "hosts: client"},
		{"kind: bulk", "kind: bluk"},
		{"loss: [0%, 1%]", "loss: 0%"},
		{"plain: true", "plain: perhaps"},
		{"where: {loss: 1%}", "where: [loss]"},
	} {
		if err := validate(schema, strings.Replace(valid, c.old, c.new, 1)); err == nil {
			t.Errorf("%q in the place of %q is accepted", c.new, c.old)
		}
	}
}

// wordKeys converts numeric keys to strings, as in JSON.
func wordKeys(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = wordKeys(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = wordKeys(value[key])
		}
	case map[any]any:
		words := map[string]any{}
		for key := range value {
			words[fmt.Sprint(key)] = wordKeys(value[key])
		}
		return words
	}
	return value
}

// validate reads YAML with a general decoder and applies the schema.
func validate(schema *jsonschema.Schema, text string) error {
	var content any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return err
	}
	document, err := json.Marshal(wordKeys(content))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestReferenceIsComplete(t *testing.T) {
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	reference := string(text)
	for _, key := range yamlfile.Keys(reflect.TypeFor[file]()) {
		last := key[strings.LastIndex(key, ".")+1:]
		if !strings.Contains(reference, "`"+last+"`") {
			t.Errorf("%s does not describe %s", referenceFile, key)
		}
	}
	for _, m := range Metrics() {
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.Name, m.Unit, m.Of, m.Meaning)
		if !strings.Contains(reference, row) {
			t.Errorf("%s lacks the line of a metric:\n%s", referenceFile, row)
		}
	}
	for _, name := range names() {
		if !strings.Contains(reference, "`"+name+"`") {
			t.Errorf("%s does not list the scenario %s", referenceFile, name)
		}
	}
	for _, example := range examples(reference) {
		if _, err := Parse("example.yaml", []byte(example)); err != nil {
			t.Errorf("an example of %s: %v", referenceFile, err)
		}
	}
}

// examples returns the YAML blocks that are complete files.
func examples(markdown string) (all []string) {
	for i, block := range strings.Split(markdown, "```") {
		if text, isYAML := strings.CutPrefix(block, "yaml\n"); i%2 == 1 && isYAML && strings.HasPrefix(text, "version:") {
			all = append(all, text)
		}
	}
	return all
}
