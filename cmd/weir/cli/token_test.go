// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// Every user of the host can read a command line, and child processes inherit the environment.
func TestATokenComesFromAFileOrTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for content, want := range map[string]string{"secret\n": "secret", "": "", "two\nlines\n": ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken("", file)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	t.Setenv(TokenVariable, "other")
	if got, err := ReadToken("given", ""); got != "given" || err != nil {
		t.Errorf("with --token: %q, %v", got, err)
	}
	t.Setenv(TokenVariable, "other")
	if got, err := ReadToken("", ""); got != "other" || err != nil {
		t.Errorf("by the environment: %q, %v", got, err)
	}
	if left, there := os.LookupEnv(TokenVariable); there {
		t.Errorf("processes that are started inherit %q", left)
	}
}
