// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir/core/daemon"
	"weir/core/engine"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/modules"
	"weir/record"
)

// newEngine returns the engine of this host with the modules of this build.
func newEngine() (*engine.Engine, error) {
	all := modules.All()
	language, err := modules.Language(all)
	if err != nil {
		return nil, err
	}
	return engine.New(all, language)
}

func (a *app) warn(warnings []string) {
	for _, warning := range warnings {
		a.say("Warning: %s", warning)
	}
}

func newPlanCommand(a *app) *cobra.Command {
	return a.takesPolicy("Plan", (*engine.Engine).Plan, &cobra.Command{
		Use:   "plan [POLICY]",
		Short: "Show the changes of an apply without making them",
		Long: `Show the changes of an apply without making them: the action and mechanism of each
scope, and the missing objects of waiting scopes. Warnings name probable mistakes in
the policy. The exit status is 1 if
this host would reject an apply. Without POLICY the file is /etc/weir/policy.yaml,
and "-" is standard input.`,
		Example: `  weir plan policy.yaml
  weir plan - < policy.yaml
  weir plan --format json policy.yaml | jq '.steps[] | select(.action != "keep")'`,
	})
}

const applied = "Applied"

func newApplyCommand(a *app) *cobra.Command {
	command := a.takesPolicy(applied, (*engine.Engine).Apply, &cobra.Command{
		Use:   "apply [POLICY]",
		Short: "Apply a policy to this host",
		Long: `Apply a policy to this host. The limits are pinned in the kernel and outlive every
process until "weir release". A policy with a mistake changes nothing, and so does
the active policy. If the command is killed, the next apply completes it. Without POLICY the file is
/etc/weir/policy.yaml, and "-" is standard input.`,
		Example: `  weir apply policy.yaml
  weir apply --shadow policy.yaml    count only`,
	})
	apply := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := apply(command, args); err != nil {
			return err
		}
		return errors.Join(a.warnOfController(policyFile(args)), a.warnOfNoDaemon())
	}
	return command
}

// warnOfController warns if the host follows another file than the applied one; "" for a release.
func (a *app) warnOfController(file string) error {
	e, err := a.engine()
	if err != nil {
		return err
	}
	controller, err := e.Controller()
	if err != nil {
		return err
	}
	a.warn(overrides(controller, file))
	return nil
}

// warnOfNoDaemon warns of treatments that need a daemon while none runs.
func (a *app) warnOfNoDaemon() error {
	e, err := a.engine()
	if err != nil {
		return err
	}
	words, err := e.WithoutDaemon()
	a.warn(words)
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

// defaultPolicy is the file of commands that were not given one; packages install it.
const defaultPolicy = "/etc/weir/policy.yaml"

func policyFile(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultPolicy
}

// load reads the policy that a command was given, from standard input for "-".
func (a *app) load(e *engine.Engine, file string) (*policy.Policy, error) {
	if file == "-" {
		return e.Language.Read(a.stdin)
	}
	return e.Language.Load(file)
}

// takesPolicy completes a command that reads a policy file and prints the changes.
func (a *app) takesPolicy(title string, do func(*engine.Engine, *policy.Policy) (engine.Outcome, error), command *cobra.Command) *cobra.Command {
	shadow := command.Flags().Bool("shadow", false, "put all scopes in shadow: count only")
	command.Args, command.ValidArgsFunction = cobra.MaximumNArgs(1), completePolicy
	command.RunE = func(_ *cobra.Command, args []string) error {
		e, err := a.engine()
		if err != nil {
			return err
		}
		p, err := a.load(e, policyFile(args))
		if err != nil {
			return err
		}
		p.PutInShadow(*shadow)
		result, err := e.Take(p, func(p *policy.Policy) (engine.Outcome, error) { return do(e, p) })
		a.warn(result.Warnings)
		if err != nil {
			return err
		}
		return a.outcome(result, title)
	}
	return command
}

// outcome prints the outcome of an apply or a plan.
func (a *app) outcome(out engine.PolicyResult, title string) error {
	if out.Recovered {
		a.say("an apply or a release that was interrupted has been completed first")
	}
	a.warn(out.Notes)
	if title == applied && !out.Changed {
		title = "Active already"
	}
	err := error(nil)
	if a.format == "json" {
		err = a.json(out)
	} else {
		err = a.table(outcomeTable(out, title))
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

func newReleaseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "release",
		Short:   "End all treatment and restore the former state",
		Long:    "End all treatment: detach the programs, remove pins and state, restore former qdiscs, and\nreset the pacing of open connections to that of their applications.",
		Example: "  weir release\n  weir release --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			released, err := e.Release()
			if released {
				a.say("the policy has been released")
			}
			if err != nil {
				return fault.Wrap(err, fault.Failed, "run it again; every step can be repeated")
			}
			if a.format == "json" {
				err = a.json(daemon.Released{Format: daemon.FormatRelease, Released: released})
			} else if !released {
				a.say("no policy was active")
			}
			if err != nil {
				return err
			}
			return a.warnOfController("")
		},
	}
}
