package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/daemon"
	"weir/internal/fault"
	"weir/internal/prove"
	"weir/internal/units"
	"weir/policy"
	"weir/record"
	"weir/record/summary"
)

// proveOptions are the flags of weir prove.
type proveOptions struct {
	scope       string
	duration    time.Duration
	repetitions int
	seed        uint64
}

func newProveCommand(a *app) *cobra.Command {
	o := proveOptions{duration: 2 * time.Second, repetitions: 5}
	command := &cobra.Command{
		Use:   "prove [POLICY]",
		Short: "Test actively that the limits in force hold, and what goes around them",
		Long: `Test actively that the limits in force hold. From inside each scope short flows
of Weir's own go to a peer, TCP as fast as it goes and UDP above the rate, in
both families; what arrives is compared with what was promised. Every path is
first measured without the limit: one that carries less proves nothing.

A promise holds if the 95 % interval of the mean lies from 98 to 101 % of it.

The exit status is 0 if all hold, 1 if one does not or traffic escapes, and 3 if
something cannot be told.`,
		Example: `  sudo weir prove
  sudo weir prove policy.yaml            and that this is the policy in force
  sudo weir prove --scope backups --duration 5s`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return a.prove(command.Context(), args, o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.scope, "scope", "", "prove this scope alone")
	flags.DurationVar(&o.duration, "duration", o.duration, "how long each window is")
	flags.IntVar(&o.repetitions, "repetitions", o.repetitions, "windows of each scope, direction and path")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the order")
	return command
}

func (o proveOptions) check() error {
	switch {
	case o.duration < 100*time.Millisecond || o.duration > 10*time.Minute:
		return fault.New(fault.Usage, "write --duration 2s", "--duration %s is outside 100ms to 10m", o.duration)
	case o.repetitions < 1 || o.repetitions > 1000:
		return fault.New(fault.Usage, "write --repetitions 5", "--repetitions %d is outside 1 to 1000", o.repetitions)
	}
	return nil
}

// prove runs the tests and prints what was found.
func (a *app) prove(ctx context.Context, args []string, o proveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	engine, err := daemon.New()
	if err != nil {
		return err
	}
	options := prove.Options{Engine: engine, Scope: o.scope, Duration: o.duration, Repetitions: o.repetitions, Seed: o.seed,
		Report: func(what string, left time.Duration) {
			a.say("%s; ends in about %s, at %s", what, left.Round(time.Second), time.Now().Add(left).Format(time.TimeOnly))
		}}
	if len(args) > 0 {
		if err := a.isApplied(engine, args[0]); err != nil {
			return err
		}
	}
	result, err := prove.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := a.printProof(result); err != nil {
		return err
	}
	return proven(result)
}

// isApplied says how the policy file differs from what is in force, as an error.
func (a *app) isApplied(engine *daemon.Engine, file string) error {
	p, err := a.readPolicy(file, false)
	if err != nil {
		return err
	}
	plan, err := engine.Plan(p.Scopes)
	if err != nil {
		return err
	}
	for _, step := range plan.Steps {
		if step.Action != policy.Keep {
			return fault.New(fault.Failed, "see the difference with: weir plan "+file,
				"%s is not the policy in force: it would %s the scope %s", file, step.Action, step.Scope.Name)
		}
	}
	return nil
}

// proven is the command's error.
func proven(r *prove.Result) error {
	switch open := r.Open(); {
	case r.Stopped:
		return fault.New(fault.Failed, "let it run to its end for the whole result", "stopped")
	case r.Failed():
		return errVerdict
	case open != "":
		return fault.New(fault.Testbed, "see the reasons", "cannot say whether all limits hold: %s", open)
	}
	return nil
}

func (a *app) printProof(r *prove.Result) error {
	if a.format == "json" {
		return a.json(r)
	}
	return a.table(rateTable(r.Rates))
}

// rateTable shows what was promised and what was measured.
func rateTable(rates []prove.Rate) record.Table {
	t := record.Table{Title: "Rates", Columns: []string{"scope", "direction", "path", "promised", "measured", "95 % interval", "share",
		"extra delay", "marked", "reduced", "refused", "verdict", "why"}}
	for _, r := range rates {
		row := []string{r.Scope, r.Direction, r.Path.String(), r.Promised.String(), "–", "–", "–", "–", "", "", "", string(r.Verdict), r.Reason}
		if r.Measured.N > 0 {
			row[4], row[5] = summary.Cells(r.Measured, record.BitPerSecond)
			row[6] = fmt.Sprintf("%.1f %%", 100*r.Share)
			row[8], row[9], row[10] = fmt.Sprint(r.Marked), fmt.Sprint(r.Reduced), fmt.Sprint(r.Refused)
		}
		if r.ExtraDelay != nil && r.ExtraDelay.N > 0 {
			row[7] = units.Duration(math.Round(r.ExtraDelay.Mean*1e6) * 1e3).String()
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
