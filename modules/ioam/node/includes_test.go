// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/kernel/testutil"
)

// Each header includes the headers it uses, so an editor can open it alone.
func TestHeadersCompileAlone(t *testing.T) {
	text, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	generate := regexp.MustCompile(`-cc (\S+) .*-cflags "([^"]*)"`).FindStringSubmatch(string(text))
	if generate == nil {
		t.Fatal("generate.go has no compiler flags")
	}
	compiler := testutil.Command(t, generate[1])
	headers, err := filepath.Glob("*.h")
	if err != nil || len(headers) == 0 {
		t.Fatalf("headers: %q, %v", headers, err)
	}
	for _, header := range headers {
		t.Run(header, func(t *testing.T) {
			options := append(strings.Fields(generate[2]), "-target", "bpfel", "-fsyntax-only", "-I", ".", "-x", "c", "-")
			compile := exec.Command(compiler, options...)
			compile.Stdin = strings.NewReader("#include \"" + header + "\"\n")
			if output, err := compile.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}
