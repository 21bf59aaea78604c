// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/limit"
	"weir/limit/scoped"
)

// runFlags name the limit of each direction.
var runFlags = [...]string{limit.Egress: "limit", limit.Ingress: "ingress"}

// runOptions are the flags of weir run.
type runOptions struct {
	rates   [len(limit.Directions)]string
	shadow  bool
	summary string
}

func newRunCommand(a *app) *cobra.Command {
	var options runOptions
	command := &cobra.Command{
		Use:   "run --limit RATE -- COMMAND [ARGUMENT...]",
		Short: "Run one command under a bandwidth limit, without any file",
		Long: `Run one command, and everything it starts, under a bandwidth limit that eBPF
enforces without a queue: TCP is paced below the rate, ECN-capable packets are
marked, others make their sender slow down, and only what is left is dropped.

With --format json what was counted is printed on standard error, as standard
output is the command's. The exit status is the command's own. Loopback traffic is not limited. The
limit ends with this process.`,
		Example: `  weir run --limit 100Mbit -- rsync -a /data backup:/data
  weir run --limit 20Mbit --ingress 50Mbit -- ./fetch-mirror
  weir run --limit 1Gbit --shadow -- ./job     only count what would be done`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return a.runLimited(command, args, options) },
	}
	command.Flags().StringVar(&options.rates[limit.Egress], runFlags[limit.Egress], "", "what the command may send, as in 100Mbit")
	command.Flags().StringVar(&options.rates[limit.Ingress], runFlags[limit.Ingress], "", "what it may receive: marks where ECN allows it, drops otherwise")
	command.Flags().BoolVar(&options.shadow, "shadow", false, "count what would be done and do nothing")
	command.Flags().StringVar(&options.summary, "summary", "", "write what was counted to this file, as JSON")
	command.Flags().SetInterspersed(false)
	return command
}

func (a *app) runLimited(command *cobra.Command, args []string, options runOptions) error {
	limits := map[limit.Direction]*limit.Limit{}
	for of, flag := range runFlags {
		l, err := limitFlag("--"+flag, options.rates[of], options.shadow)
		if err != nil {
			return err
		}
		if l != nil {
			limits[limit.Direction(of)] = l
		}
	}
	if len(limits) == 0 {
		return fault.New(fault.Usage, "give --limit, --ingress or both, as in --limit 100Mbit", "no limit is given")
	}
	if options.summary != "" {
		if err := checkFile("--summary", options.summary); err != nil {
			return err
		}
	}
	outcome, err := scoped.Run(command.Context(), scoped.Command{
		Args: args, Limits: limits,
		Waiting: func(n int) {
			a.say("%s has ended; %d processes that it started have not, and stay limited", args[0], n)
		},
	})
	if err != nil {
		return err
	}
	if err := a.summarize(outcome, options.shadow, options.summary); err != nil {
		return err
	}
	if outcome.Status != 0 {
		return &exitStatus{outcome.Status}
	}
	return nil
}

// limitFlag reads one of the two rates; nil means that it is not given.
func limitFlag(flag, text string, shadow bool) (*limit.Limit, error) {
	if text == "" {
		return nil, nil
	}
	rate, err := units.ParseBitRate(text)
	if err == nil {
		err = limit.Limit{Rate: rate}.Check()
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "write a rate such as 100Mbit", "%s: %w", flag, err)
	}
	return &limit.Limit{Rate: rate, Shadow: shadow}, nil
}

// summarize says on standard error what was done; standard output is the command's.
func (a *app) summarize(outcome scoped.Outcome, shadow bool, file string) error {
	done := "%s: %s at %s; %d packets marked, %d reductions, %d refused"
	if shadow {
		done = "%s: %s at %s; %d packets would have been marked, %d reductions made, %d packets refused"
	}
	out := map[string]any{"format": "weir-run/1", "status": outcome.Status, "elapsed_ns": outcome.Elapsed}
	for _, of := range limit.Directions {
		c, limited := outcome.Counted[of]
		if !limited {
			continue
		}
		out[of.String()] = c
		if a.format == "text" {
			rate := units.BitRate(float64(c.Bytes) * 8 / max(outcome.Elapsed, time.Millisecond).Seconds())
			a.say(done, [...]string{limit.Egress: "sent", limit.Ingress: "received"}[of], units.ByteSize(c.Bytes), rate, c.Marked, c.Reduced, c.Refused)
		}
	}
	if file == "" && a.format == "text" {
		return nil
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	if a.format == "json" {
		fmt.Fprintf(a.stderr, "%s\n", text)
	}
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// exitStatus ends Weir with the status of the command that it ran.
type exitStatus struct{ status int }

func (e *exitStatus) Error() string { return fmt.Sprintf("the command ended with status %d", e.status) }
