// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/modules"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/formats/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExamplesOfTheReferenceAreValid(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t, "policy.md"), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d examples were found", len(blocks))
	}
	for _, block := range blocks {
		p, err := language.Parse("example", []byte(block[1]))
		if err != nil || len(p.Warnings) > 0 {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
}

// TestExamplesOfTheModulesAreValid parses the policies in READMEs and guides.
func TestExamplesOfTheModulesAreValid(t *testing.T) {
	tried := 0
	for _, pattern := range []string{"README.md", "*/README.md", "*/*/README.md", "*/*/*/README.md", "docs/guides/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range regexp.MustCompile("(?s)```yaml\n(version: 1\n.*?)```").FindAllStringSubmatch(string(text), -1) {
				if !strings.Contains(block[1], "\nscopes:") {
					continue // a scenario of the lab
				}
				tried++
				if _, err := language.Parse(page, []byte(block[1])); err != nil {
					t.Errorf("%v\n%s", err, block[1])
				}
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d examples were found", tried)
	}
}

func TestEveryMetricIsDescribed(t *testing.T) {
	described := page(t, "metrics.md")
	code, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, call := range regexp.MustCompile(`(?:one|describe)\("([a-z_]+)"`).FindAllStringSubmatch(string(code), -1) {
		names = append(names, "weir_"+call[1])
	}
	for _, r := range modules.All() {
		all := describeModule(r)
		for _, m := range append(all.rows, all.host...) {
			names = append(names, m.name)
		}
	}
	if len(names) < 25 {
		t.Fatalf("%d metrics were found in the code", len(names))
	}
	for _, name := range names {
		if !strings.Contains(described, "`"+name+"`") && !strings.Contains(described, "`"+name+"{") {
			t.Errorf("docs/formats/metrics.md does not describe %s", name)
		}
	}
}
