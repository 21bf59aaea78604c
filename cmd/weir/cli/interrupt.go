// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/fault"
)

// grace is the time in which an interrupted command may still end by itself.
const grace = 500 * time.Millisecond

// cleaners are the commands that end by their context, because they undo or store something first:
// kernel state, a journal, a lab, a measurement so far. All other commands only read and compute;
// they end at once, even while they parse or draw.
var cleaners = map[string]bool{
	"apply": true, "release": true, "daemon": true, "prove": true, "run": true, "lend": true, "avail": true, "top": true,
	"lab run": true, "lab rerun": true, "lab up": true, "lab down": true, "lab exec": true, "lab shell": true,
	"tester run": true, "tester send": true, "tester receive": true, "tester replay": true, "tester rfc2544": true,
	"cc install": true, "cc remove": true, "class trace": true, "class drop-in": true, "ioam path": true, "ioam watch": true,
	"offload dump": true, "offload verify": true, "offload rules": true, "doctor": true, "tester serve": true,
	"measure serve": true, "measure run": true, "measure archive": true, "fleet serve": true, "fleet enroll": true, "fleet apply": true, "fleet remove": true,
	"ix serve": true,
}

// interruptible makes the command and those below it end soon after their context, unless they are
// cleaners. The process must exit after that: the abandoned work may still run.
func interruptible(a *App, command *cobra.Command) {
	for _, sub := range command.Commands() {
		interruptible(a, sub)
	}
	_, path, _ := strings.Cut(command.CommandPath(), " ")
	run := command.RunE
	if run == nil || cleaners[path] {
		return
	}
	command.RunE = func(c *cobra.Command, args []string) error {
		if a.Inline {
			return run(c, args)
		}
		done := make(chan error, 1)
		go func() { done <- run(c, args) }()
		select {
		case err := <-done:
			return err
		case <-c.Context().Done():
		}
		select {
		case err := <-done:
			return err
		case <-time.After(grace):
			return fault.New(fault.Failed, "", "stopped")
		}
	}
}
