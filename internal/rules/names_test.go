// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plainName matches file names that every shell, archive and checkout takes unquoted.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

func TestFileNamesArePlain(t *testing.T) {
	for _, name := range tracked(t, "") {
		if !plainName.MatchString(name) {
			t.Errorf("%q: a file name may contain only A-Z, a-z, 0-9, '.', '_', '-'", name)
		}
	}
}

// maxInternalLines limits internal/ to helpers: a package that grows beyond it belongs to a part.
const maxInternalLines = 6_000

func TestInternalStaysSmall(t *testing.T) {
	sum := 0
	for _, name := range tracked(t, ".go") {
		if !strings.HasPrefix(name, "internal/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		sum += bytes.Count(text, []byte("\n"))
	}
	if sum > maxInternalLines {
		t.Errorf("internal/ has %d lines without tests, at most %d are allowed", sum, maxInternalLines)
	}
}
