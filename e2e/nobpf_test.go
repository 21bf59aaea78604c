// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/testutil"
)

// request is the command for the part without-bpf.
type request struct{ Args []string }

// answer is its outcome.
type answer struct {
	Status         int
	Stdout, Stderr string
	Refused        string // why bpf(2) could not be blocked; "" if it was
}

// withoutBPF runs a command line of the binary as on a kernel without bpf(2).
func withoutBPF(in io.Reader, out io.Writer) error {
	var asked request
	if err := json.NewDecoder(in).Decode(&asked); err != nil {
		return err
	}
	if err := testutil.RefuseBPF(unix.ENOSYS); err != nil {
		return json.NewEncoder(out).Encode(answer{Refused: err.Error()})
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(asked.Args[0], asked.Args[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the status has its outcome
	return json.NewEncoder(out).Encode(answer{Status: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()})
}

func weirWithoutBPF(t *testing.T, args ...string) outcome {
	t.Helper()
	testutil.NeedRoot(t)
	process, err := child.Start(context.Background(), "without-bpf", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.In.Close() }()
	if err := json.NewEncoder(process.In).Encode(request{append([]string{binary}, args...)}); err != nil {
		t.Fatal(err)
	}
	var got answer
	if err := json.NewDecoder(process.Out).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Refused != "" {
		testutil.Need(t, "seccomp", errors.New(got.Refused))
	}
	return outcome{got.Status, got.Stdout, got.Stderr}
}

func TestKernelWithoutBPF(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"doctor says what is missing", []string{"doctor"}, "BPF"},
		{"a run says that the links cannot be carried", []string{"lab", "run", "tiny", "--out", t.TempDir() + "/bundle"}, "BPF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := weirWithoutBPF(t, test.args...)
			if got.status != 3 {
				t.Errorf("status %d, want 3\n%s%s", got.status, got.stdout, got.stderr)
			}
			if !strings.Contains(got.stdout+got.stderr, test.want) {
				t.Errorf("output does not name %s:\n%s%s", test.want, got.stdout, got.stderr)
			}
		})
	}
}
