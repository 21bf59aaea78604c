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

// engine is that of this host, with the rooms of this build.
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
		Short: "Show what apply would change, and change nothing",
		Long: `Show what apply would change, and change nothing: what becomes of each scope, by
which mechanism it is held to its limits here, and what a scope waits for. Warnings
name what the policy allows and probably does not mean. The exit status is 1 if
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
		Short: "Make the host do what a policy says",
		Long: `Make the host do what a policy says. The limits are pinned in the kernel: they
stay in force when this process and every other has ended, until "weir release".
A policy with a mistake changes nothing. Applying the same policy again changes
nothing. Killed half-way, the next apply completes it. Without POLICY the file is
/etc/weir/policy.yaml, and "-" is standard input.`,
		Example: `  weir apply policy.yaml
  weir apply --shadow policy.yaml    only count what would be done`,
	})
	apply := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := apply(command, args); err != nil {
			return err
		}
		return errors.Join(a.warnOfController(policyFile(args)), a.warnOfUnkept())
	}
	return command
}

// warnOfController says which other file the host follows than the one that was applied by hand, ""
// for a release.
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

// warnOfUnkept says what stays in force only while a controller sees to it, and none does.
func (a *app) warnOfUnkept() error {
	e, err := a.engine()
	if err != nil {
		return err
	}
	words, err := e.WithoutDaemon()
	a.warn(words)
	return err
}

// overrides is the warning that a controller will take back what was done by hand.
func overrides(controller *engine.Controller, file string) []string {
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

// takesPolicy completes a command that reads a policy file, does something with it and prints what
// changes.
func (a *app) takesPolicy(title string, do func(*engine.Engine, *policy.Policy) (engine.Outcome, error), command *cobra.Command) *cobra.Command {
	shadow := command.Flags().Bool("shadow", false, "put all scopes in shadow: count what would be done, do nothing")
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

// outcome prints what an apply has done or a plan would do.
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

// change shows what was and what will be, or the one where they are the same.
func change(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}

func newReleaseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "release",
		Short:   "End what is in force and restore what was there",
		Long:    "End what is in force: detach the programs, remove their pins and the state, and give open\nconnections back the pacing rates that their applications had set.",
		Example: "  weir release\n  weir release --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			released, err := e.Release()
			if released {
				a.say("what was in force has ended")
			}
			if err != nil {
				return fault.Wrap(err, fault.Failed, "run it again; every step can be repeated")
			}
			if a.format == "json" {
				err = a.json(daemon.Released{Format: daemon.FormatRelease, Released: released})
			} else if !released {
				a.say("nothing was in force")
			}
			if err != nil {
				return err
			}
			return a.warnOfController("")
		},
	}
}
