// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"syscall"
	"testing"

	"weir/kernel/testutil"
)

// SIGHUP and SIGQUIT are forwarded to the command, and nothing is left of a command that they end.
// The signals may be ignored where the test runs, as under nohup, and weir run inherits that.
func TestAHangupEndsTheCommand(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "env")
	testutil.Snapshot(t)
	for _, by := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := exec.Command("env", "--default-signal=HUP,QUIT", binary, "run", "--limit", "1Mbit", "--", "sh", "-c", "echo there; while :; do sleep 1; done")
		cmd.Env = append(cmd.Environ(), "WEIR_RUN_DIR="+t.TempDir())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(by); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 128+int(by) {
			t.Errorf("%s: status %d, want %d", by, got, 128+int(by))
		}
	}
}
