// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// RunKilled runs this test binary with an additional environment variable ("NAME=value"), and kills
// it after a number of lines of output, unless it ends before. It returns all lines. The TestMain
// of the package runs the child's work if the variable is set.
func RunKilled(t testing.TB, variable string, after int) (lines []string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), variable)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if len(lines) == after {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // killed
	return lines
}
