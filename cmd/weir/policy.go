package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/daemon"
	"weir/internal/fault"
	"weir/internal/kernel/sockdiag"
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
	a.warn(p.Warnings)
	p.PutInShadow(shadow)
	return p, nil
}

func (a *app) warn(warnings []string) {
	for _, warning := range warnings {
		a.say("Warning: %s", warning)
	}
}

func newPlanCommand(a *app) *cobra.Command {
	return a.takesPolicy("Plan", (*daemon.Engine).Plan, &cobra.Command{
		Use:   "plan POLICY",
		Short: "Show what apply would change, and change nothing",
		Long: `Show what apply would change, and change nothing: what becomes of each scope, by
which mechanism it is held to its limits here, and what a scope waits for. Warnings
name what the policy allows and probably does not mean.`,
		Example: `  weir plan policy.yaml
  weir plan --format json policy.yaml | jq '.steps[] | select(.action != "keep")'`,
	})
}

func newApplyCommand(a *app) *cobra.Command {
	command := a.takesPolicy("Applied", (*daemon.Engine).Apply, &cobra.Command{
		Use:   "apply POLICY",
		Short: "Make the host do what a policy says",
		Long: `Make the host do what a policy says. The limits are pinned in the kernel: they
stay in force when this process and every other has ended, until "weir release".
A policy with a mistake changes nothing. Applying the same policy again changes
nothing. Killed half-way, the next apply completes it.`,
		Example: `  weir apply policy.yaml
  weir apply --shadow policy.yaml    only count what would be done`,
	})
	apply := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := apply(command, args); err != nil {
			return err
		}
		return a.warnOfController(args[0])
	}
	return command
}

// warnOfController says which other file the host follows than the one that was applied by hand, "" for a release.
func (a *app) warnOfController(file string) error {
	engine, err := daemon.New()
	if err != nil {
		return err
	}
	controller, err := engine.Controller()
	if err != nil {
		return err
	}
	a.warn(overrides(controller, file))
	return nil
}

// overrides is the warning that a controller will take back what was done by hand.
func overrides(controller *daemon.Controller, file string) []string {
	if controller == nil || !controller.Running {
		return nil
	}
	if file != "" {
		if path, err := filepath.Abs(file); err != nil || path == controller.Policy {
			return nil
		}
	}
	return []string{fmt.Sprintf("the controller, process %d, puts %s in force again when that file changes: edit it, or stop the controller first",
		controller.PID, controller.Policy)}
}

// takesPolicy completes a command that reads a policy file, does something with it and prints what changes.
func (a *app) takesPolicy(title string, do func(*daemon.Engine, []policy.Scope) (daemon.Outcome, error), command *cobra.Command) *cobra.Command {
	shadow := command.Flags().Bool("shadow", false, "put all scopes in shadow: count what would be done, do nothing")
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(_ *cobra.Command, args []string) error {
		p, err := policy.Load(args[0])
		if err != nil {
			return err
		}
		engine, err := daemon.New()
		if err != nil {
			return err
		}
		p.PutInShadow(*shadow)
		result, err := engine.Take(p, func(scopes []policy.Scope) (daemon.Outcome, error) { return do(engine, scopes) })
		a.warn(result.Warnings)
		if err != nil {
			return err
		}
		return a.outcome(result, title)
	}
	return command
}

// outcome prints what an apply has done or a plan would do.
func (a *app) outcome(out daemon.PolicyResult, title string) error {
	if out.Recovered {
		a.say("an apply that was interrupted has been completed first")
	}
	if out.NotPaced != "" {
		a.say("Warning: connections that were open are limited but not paced: %s", out.NotPaced)
	}
	if a.format == "json" {
		return a.json(out)
	}
	return a.table(outcomeTable(out, title))
}

func outcomeTable(out daemon.PolicyResult, title string) record.Table {
	table := record.Table{Title: title, Columns: []string{"", "scope", "applies to", "limits", "mechanism"}}
	waiting := map[string]string{}
	for _, w := range out.Waiting {
		waiting[w.Scope] = fmt.Sprintf("waits: %s (%s)", w.For, w.Place)
	}
	for _, step := range out.Steps {
		action, limits, mechanism := string(step.Action), step.Scope.Summary(), step.Mechanism
		if step.Before != nil {
			limits = step.Before.Summary() + " → " + limits
		}
		if step.Rebound && step.Action == policy.Keep {
			action = "bind anew"
		}
		if text, waits := waiting[step.Scope.Name]; waits {
			mechanism = text
		}
		table.Rows = append(table.Rows, []string{action, step.Scope.Name, step.Scope.Applies.String(), limits, mechanism})
	}
	var notes []string
	if out.Restored {
		notes = append(notes, "What is in force was not in place, or only a part of it: all of it is put in place again, and counted from zero.")
	}
	if !out.Changed {
		notes = append(notes, "Nothing changes.")
	}
	if len(out.Waiting) > 0 {
		notes = append(notes, "A scope that waits takes effect when what it names appears: at once under 'weir daemon', else with the next apply.")
	}
	table.Note = strings.Join(notes, "\n")
	return table
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
			if err := engine.FindEscapes(&status); err != nil && !errors.Is(err, sockdiag.ErrNoCgroups) {
				return err
			}
			if a.format == "json" {
				return a.json(status)
			}
			return a.statusTable(status)
		},
	}
}

// notAttached says what to do where what is in force is not, or only in part.
const notAttached = "The limits are not attached, or only in part: run 'weir apply' or 'weir daemon'."

func (a *app) statusTable(status daemon.Status) error {
	notes := controllerNote(status.Controller)
	if status.Interrupted {
		notes = append(notes, "An apply was interrupted; the next apply completes it.")
	}
	if len(status.Scopes) == 0 {
		_, err := fmt.Fprintln(a.stdout, strings.Join(append([]string{"No policy is in force."}, notes...), "\n"))
		return err
	}
	if !status.Enforced {
		notes = append(notes, notAttached)
	}
	table := record.Table{Columns: []string{"scope", "applies to", "direction", "rate", "admitted", "marked", "reduced", "refused", "state"}}
	for _, s := range status.Scopes {
		for _, direction := range []struct {
			name  string
			rate  *policy.Rate
			count *limit.Counters
			now   *limit.State
		}{{"egress", s.Scope.Egress, s.Egress, s.EgressNow}, {"ingress", s.Scope.Ingress, s.Ingress, s.IngressNow}} {
			if direction.rate == nil {
				continue
			}
			row := []string{s.Scope.Name, s.Scope.Applies.String(), direction.name, promise(s.Scope, direction.rate, direction.now), "", "", "", "", s.State}
			if c := direction.count; c != nil {
				row[4] = units.ByteSize(c.Bytes).String()
				row[5], row[6], row[7] = strconv.FormatUint(c.Marked, 10), strconv.FormatUint(c.Reduced, 10), strconv.FormatUint(c.Refused, 10)
			}
			table.Rows = append(table.Rows, row)
		}
	}
	if status.Overflow > 0 {
		notes = append(notes, fmt.Sprintf("%d packets had more than %d scopes; the outermost were not charged.", status.Overflow, limit.MaxDepth))
	}
	table.Note = strings.Join(append(notes, escapeNotes(status)...), "\n")
	return a.table(table)
}

// promise is what a direction may use, and for a child what that is now.
func promise(s policy.Scope, rate *policy.Rate, now *limit.State) string {
	if s.Parent == "" || now == nil {
		return rate.Rate.String()
	}
	return fmt.Sprintf("%s of %s, now %s", rate, s.Parent, short(now.Allowed))
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
			return a.warnOfController("")
		},
	}
}
