// SPDX-License-Identifier: Apache-2.0

// Weir regulates and measures the traffic of Linux hosts and routers. See README.md.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/cni"
	"weir/cmd/weir/complete"
	"weir/cmd/weir/parts"
	"weir/internal/child"
	"weir/internal/fault"
)

func main() {
	child.Main(parts.All())
	if cni.Called() {
		os.Exit(int(cni.Main(cli.NewEngine)))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(int(status))
}

// execute runs one command line with the engine of this host and returns its exit status.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) fault.Status {
	a := &cli.App{Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, Engine: cli.NewEngine}
	return a.Run(ctx, newRoot(a), args)
}

// newRoot returns the root with all commands and completions.
func newRoot(a *cli.App) *cobra.Command {
	root := cli.NewRoot(a, commands(a)...)
	complete.Register(a, root)
	return root
}
