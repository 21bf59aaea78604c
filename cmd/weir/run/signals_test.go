// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"weir/cmd/weir/clitest"
	"weir/kernel/testutil"
)

// handler is a command that handles SIGINT, SIGQUIT and SIGHUP itself. A shell runs a trap at once
// while it waits for a background process.
const handler = `trap 'kill $!; echo once; exit 3' INT QUIT HUP; echo ready; while :; do sleep 60 & wait $!; done`

// started runs weir run with the command handler. A terminal becomes the controlling terminal.
func started(t *testing.T, terminal *os.File) *exec.Cmd {
	t.Helper()
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	command := &exec.Cmd{}
	if terminal != nil {
		command.Stdin, command.Stdout, command.Stderr = terminal, terminal, terminal
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	if terminal == nil {
		command.Stdout = write
	}
	clitest.StartAs(t, command, "run", "--quiet", "--limit", "1Mbit", "--", "sh", "-c", handler)
	write.Close()
	if terminal == nil {
		if line, err := bufio.NewReader(read).ReadString('\n'); line != "ready\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	return command
}

// The terminal sends its signals to the command too: weir run adds none.
func TestTerminalSignalsReachTheCommandOnce(t *testing.T) {
	testutil.NeedRoot(t)
	for name, key := range map[string]string{"interrupt": "\x03", "quit": "\x1c"} {
		t.Run(name, func(t *testing.T) {
			host, terminal := clitest.Terminal(t)
			command := started(t, terminal)
			terminal.Close()
			var output strings.Builder
			lines := bufio.NewReader(host)
			for line := ""; !strings.HasPrefix(line, "ready"); {
				var err error
				if line, err = lines.ReadString('\n'); err != nil {
					t.Fatalf("%q, %v", output.String(), err)
				}
				output.WriteString(line)
			}
			if _, err := io.WriteString(host, key); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait()
			_, _ = io.Copy(&output, lines) // ends with an error when the terminal is closed
			if got := command.ProcessState.ExitCode(); got != 3 || strings.Count(output.String(), "once") != 1 {
				t.Errorf("status %d, want the command's own, 3: %q", got, output.String())
			}
		})
	}
}

// A signal of another process is forwarded as it is; only SIGTERM terminates.
func TestSignalsAreForwarded(t *testing.T) {
	testutil.NeedRoot(t)
	for s, want := range map[syscall.Signal]int{syscall.SIGINT: 3, syscall.SIGQUIT: 3, syscall.SIGTERM: 128 + int(syscall.SIGTERM)} {
		command := started(t, nil)
		if err := command.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		if got := command.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: status %d, want %d", s, got, want)
		}
	}
}
