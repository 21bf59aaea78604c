// SPDX-License-Identifier: Apache-2.0

// Package top is the command weir top, which shows the rates of a policy live.
package top

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

	"weir/cmd/weir/cli"
	"weir/cmd/weir/view"
	"weir/core/engine"
	"weir/internal/fault"
)

// topSource reads the status, and the time of the reading.
type topSource func() (engine.Status, time.Time, error)

// Command returns the command weir top.
func Command(a *cli.App) *cobra.Command {
	interval := time.Second
	command := &cobra.Command{
		Use:   "top",
		Short: "Show the effect of the active policy, updated continuously",
		Long: `Show the effect of each module on each scope, per second, updated continuously. For a
limit, the columns are the rate, its share of the limit, the queue, and the numbers of
marked, reduced and dropped packets. The queue of a policer is the one that would form
on a link with the rate of the limit. The busiest scope comes first. s sorts by another column,
/ filters, arrows scroll, ? explains keys and columns, q quits.

If standard output is not a terminal, or with --format json, the command prints the
changes of one interval and ends.`,
		Example: "  weir top\n  weir top --interval 5s\n  weir top --format json",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond || interval > time.Hour {
				return fault.New(fault.Usage, "write --interval 1s", "--interval %s is outside 100ms to 1h", interval)
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			source := func() (engine.Status, time.Time, error) {
				status, err := e.Status()
				return status, time.Now(), err
			}
			screen, isTerminal := terminal(a)
			if a.Format == "json" || !isTerminal {
				return once(command.Context(), a, source, time.After(interval))
			}
			return watch(command.Context(), os.Stdin, screen, source, interval)
		},
	}
	command.Flags().DurationVar(&interval, "interval", interval, "interval between two readings")
	return command
}

// terminal returns the terminal; false without one for output and keys.
func terminal(a *cli.App) (*os.File, bool) {
	file, ok := a.Stdout.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd())) && term.IsTerminal(int(os.Stdin.Fd())) && os.Getenv("TERM") != "dumb"
}

// once prints the changes of one interval.
func once(ctx context.Context, a *cli.App, source topSource, over <-chan time.Time) error {
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
	if a.Format == "json" {
		return a.JSON(topDocument{Format: "weir-top/3", Interval: ended.Sub(began).Seconds(), Controller: after.Controller, Modules: all})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.Stdout, view.NoScopes(after))
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
			fmt.Fprintln(a.Stdout)
		}
		if err := a.Style().Write(a.Stdout, title, strings.Join(r.status.Notes, "\n"), topHeader(r.status), cells); err != nil {
			return err
		}
	}
	return nil
}

// watch draws on the terminal until q, ctrl-C or the end of ctx, and leaves the terminal as it
// was.
func watch(ctx context.Context, keys, screen *os.File, source topSource, interval time.Duration) error {
	view := newTopView(source, interval)
	program := tea.NewProgram(view, tea.WithContext(ctx), tea.WithInput(keys), tea.WithOutput(screen), tea.WithoutSignalHandler())
	_, err := program.Run()
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(view.err, err)
}
