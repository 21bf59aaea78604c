// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"syscall"
	"testing"

	"weir/kernel/testutil"
)

// A terminal that is gone, or ^\, ends the command too, and leaves nothing. These tests may run
// where a hangup is ignored, as under nohup, which weir run takes over.
func TestAHangupEndsTheCommand(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Command(t, "env")
	testutil.Snapshot(t)
	for _, by := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := exec.Command("env", "--default-signal=HUP,QUIT", binary, "run", "--limit", "1Mbit", "--", "sh", "-c", "trap '' HUP QUIT; echo there; while :; do sleep 1; done")
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
		if got := cmd.ProcessState.ExitCode(); got != 128+int(syscall.SIGTERM) {
			t.Errorf("%s: status %d, want that of SIGTERM", by, got)
		}
	}
}
