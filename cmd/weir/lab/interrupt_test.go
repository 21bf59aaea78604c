// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/cmd/weir/clitest"
	"weir/kernel/testutil"
	"weir/record"
	"weir/record/bundle"
)

// hasRead reports whether a process has read part of its input, or has ended. The bundles of the
// test hold more than 256 KiB of compressed series.
func hasRead(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || bytes.Contains(state, []byte(") Z ")) {
		return true
	}
	var read int
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if _, failed := fmt.Sscanf(string(text), "rchar: %d", &read); err != nil || failed != nil {
		return true
	}
	return read > 128<<10
}

// Commands that read and draw a large bundle end after SIGTERM and leave no partial output.
func TestCommandsEndWhileTheyRead(t *testing.T) {
	dir := t.TempDir()
	b := &record.Bundle{Manifest: record.Manifest{Kind: "lab", Name: "large", Started: time.Unix(1, 0)}}
	for i := range 400_000 {
		b.Points = append(b.Points, record.Point{Subject: "flow", Metric: "cwnd", Unit: record.Count, Repetition: 1, Attempt: 1, At: time.Duration(i), Value: float64(i)})
	}
	for _, name := range []string{"a", "b"} {
		if err := bundle.Write(filepath.Join(dir, name), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"lab", "compare", "a", "b"}, {"lab", "overlay", "a", "b", "--out", "c"}} {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			command := clitest.StartAs(t, &exec.Cmd{Dir: dir}, args...)
			testutil.Eventually(t, time.Minute, "reading", func() bool { return hasRead(command.Process.Pid) })
			if err := command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Error(err)
			}
			sent := time.Now()
			_ = command.Wait()
			t.Logf("%v ended %v after %v", args[:2], time.Since(sent).Round(time.Millisecond), s)
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
				t.Errorf("%v after %v left %v", args, s, left)
			}
			_ = os.RemoveAll(filepath.Join(dir, "c"))
		}
	}
}
