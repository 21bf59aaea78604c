// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/core/engine"
	"weir/internal/fault"
)

// topSource reads the status, and the time of the reading.
type topSource func() (engine.Status, time.Time, error)

func newTopCommand(a *app) *cobra.Command {
	interval := time.Second
	command := &cobra.Command{
		Use:   "top",
		Short: "Watch a policy at work",
		Long: `Watch a policy at work: what each room does to each scope, per second. Of limits
that is the rate, its share of the limit, the virtual queue, and what was marked,
reduced and dropped. The busiest come first; s sorts by another column, / filters,
arrows scroll, ? explains keys and columns, q quits.

Where standard output is no terminal, or with --format json, it prints what
happened within one interval and ends.`,
		Example: "  weir top\n  weir top --interval 5s\n  weir top --format json",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond || interval > time.Hour {
				return fault.New(fault.Usage, "write --interval 1s", "--interval %s is outside 100ms to 1h", interval)
			}
			e, err := a.engine()
			if err != nil {
				return err
			}
			source := func() (engine.Status, time.Time, error) {
				status, err := e.Status()
				return status, time.Now(), err
			}
			screen, isTerminal := a.screen()
			if a.format == "json" || !isTerminal {
				return a.topOnce(command.Context(), source, time.After(interval))
			}
			return watchTop(command.Context(), os.Stdin, screen, source, interval)
		},
	}
	command.Flags().DurationVar(&interval, "interval", interval, "time between two looks")
	return command
}

// screen returns the terminal; false without one for output and keys.
func (a *app) screen() (*os.File, bool) {
	file, ok := a.stdout.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd())) && term.IsTerminal(int(os.Stdin.Fd())) && os.Getenv("TERM") != "dumb"
}

// topOnce prints the changes of one interval.
func (a *app) topOnce(ctx context.Context, source topSource, over <-chan time.Time) error {
	before, began, err := source()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
	}
	after, ended, err := source()
	if err != nil {
		return err
	}
	all := topModules(before, after, ended.Sub(began))
	if a.format == "json" {
		return a.json(topDocument{Format: "weir-top/3", Interval: ended.Sub(began).Seconds(), Controller: after.Controller, Modules: all})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.stdout, inForceOf(after))
		return err
	}
	for i, r := range all {
		var cells [][]string
		for _, row := range r.Rows {
			cells = append(cells, row.cells(r.status))
		}
		title := ""
		if len(all) > 1 {
			title = r.Module
		}
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := a.style().Write(a.stdout, title, strings.Join(r.status.Notes, "\n"), topHeader(r.status), cells); err != nil {
			return err
		}
	}
	return nil
}

const nothingInForce = "No policy is active."

// watchTop draws on the terminal until q, ctrl-C or the end of ctx, and leaves the terminal as it
// was.
func watchTop(ctx context.Context, keys, screen *os.File, source topSource, interval time.Duration) error {
	view := newTopView(source, interval)
	program := tea.NewProgram(view, tea.WithContext(ctx), tea.WithInput(keys), tea.WithOutput(screen), tea.WithoutSignalHandler())
	_, err := program.Run()
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(view.err, err)
}
