// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"os/exec"
	"strings"
	"testing"
)

// output runs an independent program and returns its words, joined by single blanks.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}
