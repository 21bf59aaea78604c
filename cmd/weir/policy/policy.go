// SPDX-License-Identifier: Apache-2.0

// Package policy has the commands that work on a policy: plan, apply, daemon, status, prove and
// release.
package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/complete"
	"weir/core/daemon"
	"weir/core/engine"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/record"
)

// PlanCommand returns the command weir plan.
func PlanCommand(a *cli.App) *cobra.Command {
	return takesPolicy(a, "Plan", (*engine.Engine).Plan, &cobra.Command{
		Use:   "plan [POLICY]",
		Short: "Show the changes of an apply without making them",
		Long: `Show the changes that "weir apply" would make: the action and the kernel mechanism for
each scope. If the cgroup, unit or device of a scope does not exist yet, the scope
waits, and the plan shows the missing object. Warnings describe probable mistakes in the
policy. The exit status is 1 if an apply would fail on this host. Without POLICY, the
command reads /etc/weir/policy.yaml; "-" is standard input.`,
		Example: `  weir plan policy.yaml
  weir plan - < policy.yaml
  weir plan --format json policy.yaml | jq '.steps[] | select(.action != "keep")'`,
	})
}

const applied = "Applied"

// ApplyCommand returns the command weir apply.
func ApplyCommand(a *cli.App) *cobra.Command {
	command := takesPolicy(a, applied, (*engine.Engine).Apply, &cobra.Command{
		Use:   "apply [POLICY]",
		Short: "Apply a policy to this host",
		Long: `Apply a policy to this host. Programs and limits are pinned in the kernel: they stay
active without any process until "weir release". If the policy has a mistake, the
command changes nothing. If the policy is already active, it changes nothing either. If
the command is killed, the next apply completes the change. Without POLICY, the command
reads /etc/weir/policy.yaml; "-" is standard input.`,
		Example: `  weir apply policy.yaml
  weir apply --shadow policy.yaml    count only`,
	})
	apply := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := apply(command, args); err != nil {
			return err
		}
		return errors.Join(warnOfController(a, cli.PolicyFile(args)), warnOfNoDaemon(a))
	}
	return command
}

// warnOfController warns if the host follows another file than the applied one; "" for a release.
func warnOfController(a *cli.App, file string) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	controller, err := e.Controller()
	if err != nil {
		return err
	}
	a.Warn(overrides(controller, file))
	return nil
}

// warnOfNoDaemon warns of treatments that need a daemon while none runs.
func warnOfNoDaemon(a *cli.App) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	words, err := e.WithoutDaemon()
	a.Warn(words)
	return err
}

// overrides returns the warning that a controller will revert a manual change.
func overrides(controller *engine.Controller, file string) []string {
	if controller == nil || !controller.Running {
		return nil
	}
	if file != "" {
		if path, err := filepath.Abs(file); err != nil || path == controller.Policy {
			return nil
		}
	}
	return []string{fmt.Sprintf("the controller, process %d, will apply %s again when that file changes: edit it, or stop the controller first",
		controller.PID, controller.Policy)}
}

// load reads the policy that a command was given, from standard input for "-".
func load(a *cli.App, e *engine.Engine, file string) (*policy.Policy, error) {
	if file == "-" {
		return e.Language.Read(a.Stdin)
	}
	return e.Language.Load(file)
}

// takesPolicy completes a command that reads a policy file and prints the changes.
func takesPolicy(a *cli.App, title string, do func(*engine.Engine, *policy.Policy) (engine.Outcome, error), command *cobra.Command) *cobra.Command {
	shadow := command.Flags().Bool("shadow", false, "put all scopes in shadow mode: only count")
	command.Args, command.ValidArgsFunction = cobra.MaximumNArgs(1), complete.Policy
	command.RunE = func(_ *cobra.Command, args []string) error {
		e, err := a.Engine()
		if err != nil {
			return err
		}
		p, err := load(a, e, cli.PolicyFile(args))
		if err != nil {
			return err
		}
		p.PutInShadow(*shadow)
		result, err := e.Take(p, func(p *policy.Policy) (engine.Outcome, error) { return do(e, p) })
		a.Warn(result.Warnings)
		if err != nil {
			return err
		}
		return outcome(a, result, title)
	}
	return command
}

// outcome prints the outcome of an apply or a plan.
func outcome(a *cli.App, out engine.PolicyResult, title string) error {
	if out.Recovered {
		a.Say("an apply or a release that was interrupted has been completed first")
	}
	a.Warn(out.Notes)
	if title == applied && !out.Changed {
		title = "Active already"
	}
	err := error(nil)
	if a.Format == "json" {
		err = a.JSON(out)
	} else {
		err = a.Table(outcomeTable(out, title))
	}
	if err == nil && len(out.Rejected) > 0 {
		err = fault.New(fault.Failed, "", "%s", strings.Join(out.Rejected, "\n"))
	}
	return err
}

func outcomeTable(out engine.PolicyResult, title string) record.Table {
	table := record.Table{Title: title, Columns: []string{"", "scope", "applies to", "treatment", "mechanism"}}
	waiting := map[string]string{}
	for _, w := range out.Waiting {
		waiting[w.Scope] = fmt.Sprintf("waits: %s (%s)", w.For, w.Place)
	}
	for _, step := range out.Steps {
		action, treatment, mechanism := string(step.Action), step.Scope.Summary(), step.Mechanism
		applies := step.Scope.Selector.String()
		if step.Before != nil {
			treatment, applies = change(step.Before.Summary(), treatment), change(step.Before.Selector.String(), applies)
		}
		if text, waits := waiting[step.Scope.Name]; waits {
			mechanism = text
		}
		table.Rows = append(table.Rows, []string{action, step.Scope.Name, applies, treatment, mechanism})
	}
	for _, step := range out.Host {
		treatment := step.Item.Treatment.Summary()
		if step.Before != nil {
			treatment = step.Before.Treatment.Summary() + " → " + treatment
		}
		table.Rows = append(table.Rows, []string{string(step.Action), "", step.Item.Name, treatment, step.Mechanism})
	}
	var notes []string
	if out.Restored {
		notes = append(notes, "The active policy was incomplete on this host: it is attached again, and its counters restart.")
	}
	if !out.Changed {
		notes = append(notes, "Nothing changes.")
	}
	if len(out.Waiting) > 0 {
		notes = append(notes, "A waiting scope becomes active when its object appears: at once under 'weir daemon', otherwise with the next apply.")
	}
	table.Note = strings.Join(notes, "\n")
	return table
}

// change shows the old and the new text, or one if they are equal.
func change(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}

// ReleaseCommand returns the command weir release.
func ReleaseCommand(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "release",
		Short: "End the active policy and restore the original state",
		Long: `End the active policy: detach the programs, remove pins and state, restore the original
qdiscs, and reset the pacing of open connections to the value of their applications. Limits that container
runtimes set through the CNI plugin stay, unless --all is given.`,
		Example: "  weir release\n  weir release --all         end the limits of the CNI plugin too\n  weir release --format json",
		Args:    cobra.NoArgs,
	}
	all := command.Flags().Bool("all", false, "also end the limits of the CNI plugin")
	command.RunE = func(*cobra.Command, []string) error {
		e, err := a.Engine()
		if err != nil {
			return err
		}
		end := e.Release
		if *all {
			end = e.ReleaseAll
		}
		released, err := end()
		if released {
			a.Say("the policy has been released")
		}
		if err != nil {
			return fault.Wrap(err, fault.Failed, "run it again; every step can be repeated")
		}
		if a.Format == "json" {
			err = a.JSON(daemon.Released{Format: daemon.FormatRelease, Released: released})
		} else if !released {
			a.Say("no policy was active")
		}
		if err != nil {
			return err
		}
		return warnOfController(a, "")
	}
	return command
}
