// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the real binary like a user and checks its effects: packets, files, exit
// statuses.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/internal/child"
)

// binary is the executable under test: WEIR_E2E_BINARY, or one built for this run.
var binary string

func TestMain(m *testing.M) {
	child.Main(child.Parts{"without-bpf": withoutBPF})
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	binary = os.Getenv("WEIR_E2E_BINARY")
	if binary == "" {
		dir, err := os.MkdirTemp("", "weir-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		// A user without privileges must be able to start it too.
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "weir")
		build := exec.Command("go", "build", "-trimpath", "-o", binary, "../cmd/weir")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build weir:", err)
			return 1
		}
	}
	return m.Run()
}

// outcome is the end of a command.
type outcome struct {
	status         int
	stdout, stderr string
}

// command prepares one command line of the binary with the test's own run directory.
func command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, &stdout, &stderr
}

// weir runs one command line and returns its outcome.
func weir(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd, stdout, stderr := command(t, args...)
	return finish(t, cmd, cmd.Run(), stdout, stderr)
}

func finish(t *testing.T, cmd *exec.Cmd, err error, stdout, stderr *bytes.Buffer) outcome {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// want fails the test if the command did not end with the status.
func (o outcome) want(t *testing.T, status int) {
	t.Helper()
	if o.status != status {
		t.Fatalf("ended with status %d, want %d\nstdout: %s\nstderr: %s", o.status, status, o.stdout, o.stderr)
	}
}
