package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/daemon"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/limit"
	"weir/policy"
	"weir/record"
)

// readPolicy reads the policy file and prints its warnings.
func (a *app) readPolicy(file string, shadow bool) (*policy.Policy, error) {
	p, err := policy.Load(file)
	if err != nil {
		return nil, err
	}
	for _, warning := range p.Warnings {
		a.say("Warning: %s", warning)
	}
	for i := range p.Scopes {
		p.Scopes[i].Shadow = p.Scopes[i].Shadow || shadow
	}
	return p, nil
}

func newPlanCommand(a *app) *cobra.Command {
	var shadow bool
	command := &cobra.Command{
		Use:     "plan POLICY",
		Short:   "Show what apply would change, and change nothing",
		Example: "  weir plan policy.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.readPolicy(args[0], shadow)
			if err != nil {
				return err
			}
			engine, err := daemon.New()
			if err != nil {
				return err
			}
			out, err := engine.Plan(p.Scopes)
			if err != nil {
				return err
			}
			return a.outcome(out, "Plan")
		},
	}
	command.Flags().BoolVar(&shadow, "shadow", false, "plan all scopes in shadow")
	return command
}

func newApplyCommand(a *app) *cobra.Command {
	var shadow bool
	command := &cobra.Command{
		Use:   "apply POLICY",
		Short: "Make the host do what a policy says",
		Long: `Make the host do what a policy says. The limits are pinned in the kernel: they
stay in force when this process and every other has ended, until "weir release".
A policy with a mistake changes nothing. Applying the same policy again changes
nothing. Killed half-way, the next apply completes it.`,
		Example: `  weir apply policy.yaml
  weir apply --shadow policy.yaml    only count what would be done`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.readPolicy(args[0], shadow)
			if err != nil {
				return err
			}
			engine, err := daemon.New()
			if err != nil {
				return err
			}
			out, err := engine.Apply(p.Scopes)
			if err != nil {
				return err
			}
			return a.outcome(out, "Applied")
		},
	}
	command.Flags().BoolVar(&shadow, "shadow", false, "put all scopes in shadow: count what would be done, do nothing")
	return command
}

// outcome prints what an apply has done or a plan would do.
func (a *app) outcome(out daemon.Outcome, title string) error {
	if out.Recovered {
		a.say("an apply that was interrupted has been completed first")
	}
	if out.NotPaced != "" {
		a.say("Warning: connections that were open are limited but not paced: %s", out.NotPaced)
	}
	if a.format == "json" {
		return a.json(out)
	}
	table := record.Table{Title: title, Columns: []string{"", "scope", "applies to", "limits", "now"}}
	waiting := map[string]string{}
	for _, w := range out.Waiting {
		waiting[w.Scope] = "waits: " + w.For
	}
	for _, step := range out.Steps {
		limits := step.Scope.Summary()
		if step.Before != nil {
			limits = step.Before.Summary() + " → " + limits
		}
		table.Rows = append(table.Rows, []string{string(step.Action), step.Scope.Name, step.Scope.Applies.String(), limits, waiting[step.Scope.Name]})
	}
	if !out.Changed {
		table.Note = "Nothing changes."
	}
	return a.table(table)
}

func newStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the limits in force and what they have done",
		Example: "  weir status\n  weir status --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			engine, err := daemon.New()
			if err != nil {
				return err
			}
			status, err := engine.Status()
			if err != nil {
				return err
			}
			if a.format == "json" {
				return a.json(status)
			}
			return a.statusTable(status)
		},
	}
}

func (a *app) statusTable(status daemon.Status) error {
	notes := controllerNote(status.Controller)
	if len(status.Scopes) == 0 {
		_, err := fmt.Fprintln(a.stdout, strings.Join(append([]string{"No policy is in force."}, notes...), "\n"))
		return err
	}
	table := record.Table{Columns: []string{"scope", "applies to", "direction", "rate", "admitted", "marked", "reduced", "refused", "state"}}
	for _, s := range status.Scopes {
		for _, direction := range []struct {
			name  string
			rate  *policy.Rate
			count *limit.Counters
		}{{"egress", s.Scope.Egress, s.Egress}, {"ingress", s.Scope.Ingress, s.Ingress}} {
			if direction.rate == nil {
				continue
			}
			row := []string{s.Scope.Name, s.Scope.Applies.String(), direction.name, direction.rate.Rate.String(), "", "", "", "", s.State}
			if c := direction.count; c != nil {
				row[4] = units.ByteSize(c.Bytes).String()
				row[5], row[6], row[7] = strconv.FormatUint(c.Marked, 10), strconv.FormatUint(c.Reduced, 10), strconv.FormatUint(c.Refused, 10)
			}
			table.Rows = append(table.Rows, row)
		}
	}
	if status.Interrupted {
		notes = append(notes, "An apply was interrupted; the next apply completes it.")
	}
	if status.Overflow > 0 {
		notes = append(notes, fmt.Sprintf("%d packets had more than %d scopes; the outermost were not charged.", status.Overflow, limit.MaxDepth))
	}
	table.Note = strings.Join(notes, "\n")
	return a.table(table)
}

func newReleaseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "release",
		Short:   "End all limits and restore what was there",
		Long:    "End all limits: detach the programs, remove their pins and the state, and give open\nconnections back the pacing rates that their applications had set.",
		Example: "  weir release",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			engine, err := daemon.New()
			if err != nil {
				return err
			}
			released, err := engine.Release()
			if err != nil {
				return fault.Wrap(err, fault.Failed, "run it again; every step can be repeated")
			}
			if released {
				a.say("all limits have ended")
			} else {
				a.say("no limits were in force")
			}
			return nil
		},
	}
}
