// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"testing"

	"github.com/spf13/cobra"

	"weir/internal/fault"
)

// A command that loops over hostile input ends with its context, and a cleaner cleans up first.
func TestInterruptedCommandsEnd(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	cleaned := false
	loop := &cobra.Command{Use: "loop", RunE: func(*cobra.Command, []string) error { <-forever; return nil }}
	apply := &cobra.Command{Use: "apply", RunE: func(c *cobra.Command, _ []string) error {
		<-c.Context().Done()
		cleaned = true
		return context.Cause(c.Context())
	}}
	for _, name := range []string{"loop", "apply"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a := &App{Stdout: io.Discard, Stderr: io.Discard}
		if status := a.Run(ctx, NewRoot(a, loop, apply), []string{name}); status != fault.Failed {
			t.Errorf("%s: status %d", name, status)
		}
		loop.ResetCommands()
	}
	if !cleaned {
		t.Error("apply was abandoned")
	}
}
