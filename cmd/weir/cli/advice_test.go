// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAdviceNamesDocumentsWhereTheyWereInstalled(t *testing.T) {
	prefix := t.TempDir()
	formats := filepath.Join(prefix, "share", "doc", "weir", "docs", "formats")
	if err := os.MkdirAll(formats, 0o755); err != nil {
		t.Fatal(err)
	}
	const try = "correct the file; docs/formats/policy.md describes the format"
	for program, want := range map[string]string{
		filepath.Join(prefix, "bin", "weir"): "correct the file; " + formats + "/policy.md describes the format",
		"/nowhere/bin/weir":                  try,
	} {
		if got := installed(try, program); got != want {
			t.Errorf("beside %s: %q, want %q", program, got, want)
		}
	}
}
