// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/cmd/weir/view"
	"weir/core/engine"
	"weir/core/module"
	"weir/kernel/sockdiag"
	"weir/modules/limit/scoped"
	"weir/record"
)

// StatusCommand returns the command weir status.
func StatusCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the active policy and its counters",
		Example: "  weir status\n  weir status --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			status, err := e.Status()
			if err != nil {
				return err
			}
			if err := e.FindEscapes(&status); err != nil && !errors.Is(err, sockdiag.ErrNoCgroups) {
				return err
			}
			listed, err := scoped.List()
			if err != nil {
				return err
			}
			runs := withDownloads(listed)
			if a.Format == "json" {
				return a.JSON(statusDocument{status, runs})
			}
			if err := statusTables(a, status); err != nil || len(runs) == 0 {
				return err
			}
			fmt.Fprintln(a.Stdout)
			return a.Table(runsTable(runs))
		},
	}
}

func statusTables(a *cli.App, status engine.Status) error {
	notes := view.ControllerNote(status.Controller)
	if status.Interrupted {
		notes = append(notes, "An apply or a release was interrupted; the next 'weir apply', 'weir daemon' or 'weir release' completes it.")
	}
	if status.Underway {
		notes = append(notes, "An apply or a release is at work: ask again in a moment.")
	}
	if len(status.Scopes)+len(status.Modules) == 0 {
		_, err := fmt.Fprintln(a.Stdout, strings.Join(append([]string{view.NoScopes(status)}, notes...), "\n"))
		return err
	}
	if !status.Enforced {
		notes = append(notes, view.NotAttached)
	}
	for i, r := range status.Modules {
		table := statusTable(status, r)
		table.Note = strings.Join(r.Notes, "\n")
		if len(status.Modules) > 1 {
			table.Title = r.Module
		}
		if i == len(status.Modules)-1 {
			table.Note = strings.Join(append(slices.Clone(r.Notes), append(notes, escapeNotes(status)...)...), "\n")
		}
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		if err := a.Table(table); err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether no row has a value of the column.
func idle(r engine.ModuleStatus, c module.Column) bool {
	others := false
	for _, row := range r.Rows {
		if row.Values[c.Name].Known {
			return false
		}
		for _, v := range row.Values {
			others = others || v.Known
		}
	}
	return others
}

// statusTable returns the rows of a module with totals of counters.
func statusTable(status engine.Status, r engine.ModuleStatus) record.Table {
	columns := view.Shown(r.Columns, func(c module.Column) bool { return c.NoStatus || idle(r, c) })
	table := record.Table{Columns: view.Lead(r)}
	if r.Heading != "" {
		table.Columns = append(table.Columns, r.Heading)
	}
	for _, c := range columns {
		table.Columns = append(table.Columns, c.Title)
	}
	table.Columns = append(table.Columns, "state")
	owned := slices.ContainsFunc(status.Scopes, func(s engine.ScopeStatus) bool { return s.Owner != nil })
	if owned {
		table.Columns = append(table.Columns, "owner")
	}
	scopes := view.ScopesByName(status)
	for _, row := range r.Rows {
		s := scopes[row.Scope]
		cells := []string{row.Scope, s.Selector.String()}
		if r.Part != "" {
			cells = append(cells, row.Part)
		}
		if r.Heading != "" {
			cells = append(cells, row.Promise)
		}
		for _, c := range columns {
			cells = append(cells, view.Total(c, row.Values[c.Name]))
		}
		cells = append(cells, s.State)
		if owned {
			cells = append(cells, ownerOf(s))
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

// ownerOf describes the origin of a scope.
func ownerOf(s engine.ScopeStatus) string {
	switch {
	case s.Owner == nil:
		return "policy"
	case s.Owner.For == "":
		return s.Owner.Name
	}
	return s.Owner.Name + ": " + s.Owner.For
}
