// SPDX-License-Identifier: Apache-2.0

// Package clitest runs command lines in the tests of command groups.
package clitest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/parts"
	"weir/internal/child"
	"weir/internal/fault"
)

// Group is the commands of a group: each function makes one command of the root.
type Group []func(*cli.App) *cobra.Command

// commandVariable holds the command line of a process that Start makes, one argument a line.
const commandVariable = "WEIR_TEST_COMMAND"

// Main runs the tests of a group. TestMain calls it first. In a child process it runs a component
// of Weir or the command line of Start.
func (g Group) Main(m *testing.M) {
	child.Main(parts.All())
	if line := os.Getenv(commandVariable); line != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(int(g.run(ctx, strings.Split(line, "\n"), os.Stdout, os.Stderr)))
	}
	os.Exit(m.Run())
}

// Call runs one command line and returns its status and output.
func (g Group) Call(t *testing.T, args ...string) (status fault.Status, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	status = g.run(t.Context(), args, &out, &err)
	return status, out.String(), err.String()
}

// Start runs a command line in a process of its own, which ends with the test.
func Start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return StartAs(t, &exec.Cmd{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}}, args...)
}

// StartAs is Start with the streams and attributes of a prepared command.
func StartAs(t *testing.T, command *exec.Cmd, args ...string) *exec.Cmd {
	t.Helper()
	command.Path, command.Args = os.Args[0], os.Args[:1]
	command.Env = append(os.Environ(), commandVariable+"="+strings.Join(args, "\n"))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command
}

func (g Group) run(ctx context.Context, args []string, stdout, stderr io.Writer) fault.Status {
	a := &cli.App{Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, Engine: cli.NewEngine}
	var commands []*cobra.Command
	for _, command := range g {
		commands = append(commands, command(a))
	}
	return a.Run(ctx, cli.NewRoot(a, commands...), args)
}
