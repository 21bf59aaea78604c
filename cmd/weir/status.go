// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/core/engine"
	"weir/core/module"
	"weir/internal/direction"
	"weir/internal/units"
	"weir/kernel/sockdiag"
	"weir/modules/cc"
	"weir/modules/limit/scoped"
	"weir/record"
)

func newStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the active policy and its counters",
		Example: "  weir status\n  weir status --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, err := a.engine()
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
			if a.format == "json" {
				return a.json(statusDocument{status, runs})
			}
			if err := a.statusTables(status); err != nil || len(runs) == 0 {
				return err
			}
			fmt.Fprintln(a.stdout)
			return a.table(runsTable(runs))
		},
	}
}

// statusDocument is the status with the commands of weir run.
type statusDocument struct {
	engine.Status
	Runs []running `json:"runs,omitempty"`
}

// running is a command with its counters of downloads.
type running struct {
	scoped.Running
	Downloads *cc.Received `json:"downloads,omitempty"` // nil without receiver-side control
}

func withDownloads(all []scoped.Running) (runs []running) {
	for _, r := range all {
		one := running{Running: r}
		if r.Holds != 0 {
			if counted, err := cc.ReadReceived(r.Holds); err == nil { // else it has ended
				one.Downloads = &counted
			}
		}
		runs = append(runs, one)
	}
	return runs
}

// downloads returns the cells of downloads: connections, window and queue.
func (r running) downloads() []string {
	d := r.Downloads
	switch {
	case d == nil:
		return []string{"", "", ""}
	case d.Steps == 0:
		return []string{fmt.Sprint(d.Connections), "", ""}
	}
	return []string{fmt.Sprint(d.Connections), units.ByteSize(d.Window()).String(), milliseconds(d.Delay().Seconds())}
}

// runsTable shows the commands under 'weir run'.
func runsTable(runs []running) record.Table {
	table := record.Table{Title: "weir run", Columns: []string{"command", "process", "class", "direction", "rate", "admitted", "marked", "reduced", "dropped", "held", "window", "queue", "state"}}
	for _, r := range runs {
		state := "enforced"
		if r.Shadow {
			state = "shadow"
		}
		if len(r.Limits) == 0 {
			row := append([]string{strings.Join(r.Command, " "), fmt.Sprint(r.PID), r.Class, "", "", "", "", "", ""}, r.downloads()...)
			table.Rows = append(table.Rows, append(row, state))
		}
		for _, d := range direction.Both {
			rate, limited := r.Limits[d]
			if !limited {
				continue
			}
			row := []string{strings.Join(r.Command, " "), fmt.Sprint(r.PID), r.Class, d.String(), rate.String(), "", "", "", ""}
			if c := r.Counted[d]; c != nil {
				row[5], row[6], row[7], row[8] = units.ByteSize(c.Bytes).String(), fmt.Sprint(c.Marked), fmt.Sprint(c.Reduced), fmt.Sprint(c.Dropped)
			}
			table.Rows = append(table.Rows, append(append(row, r.downloads()...), state))
			r.Downloads = nil // once only
		}
	}
	return table
}

// notAttached is the advice for a policy that is not completely attached.
const notAttached = "The active policy is not completely attached: run 'weir apply' or 'weir daemon', or end it with 'weir release'."

// inForceOf describes a state without scopes and items.
func inForceOf(status engine.Status) string {
	if status.Lost {
		return "Programs of Weir are active without a state. 'weir release' ends them."
	}
	if status.Interrupted {
		return "No policy is completely active: the first apply, or the last release, was interrupted."
	}
	return nothingInForce
}

func (a *app) statusTables(status engine.Status) error {
	notes := controllerNote(status.Controller)
	if status.Interrupted {
		notes = append(notes, "An apply or a release was interrupted; the next 'weir apply', 'weir daemon' or 'weir release' completes it.")
	}
	if status.Underway {
		notes = append(notes, "An apply or a release is at work: ask again in a moment.")
	}
	if len(status.Scopes)+len(status.Modules) == 0 {
		_, err := fmt.Fprintln(a.stdout, strings.Join(append([]string{inForceOf(status)}, notes...), "\n"))
		return err
	}
	if !status.Enforced {
		notes = append(notes, notAttached)
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
			fmt.Fprintln(a.stdout)
		}
		if err := a.table(table); err != nil {
			return err
		}
	}
	return nil
}

// shown returns the columns of a table.
func shown(all []module.Column, leftOut func(module.Column) bool) (columns []module.Column) {
	for _, c := range all {
		if c.Title != "" && !leftOut(c) {
			columns = append(columns, c)
		}
	}
	return columns
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
	columns := shown(r.Columns, func(c module.Column) bool { return c.NoStatus || idle(r, c) })
	table := record.Table{Columns: lead(r)}
	if r.Heading != "" {
		table.Columns = append(table.Columns, r.Heading)
	}
	for _, c := range columns {
		table.Columns = append(table.Columns, c.Title)
	}
	table.Columns = append(table.Columns, "state")
	scopes := scopesByName(status)
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
			cells = append(cells, total(c, row.Values[c.Name]))
		}
		table.Rows = append(table.Rows, append(cells, s.State))
	}
	return table
}

// lead returns the leading headings of rows.
func lead(r engine.ModuleStatus) []string {
	all := []string{"scope", "applies to"}
	if r.Part != "" {
		all = append(all, r.Part)
	}
	return all
}

func scopesByName(status engine.Status) map[string]engine.ScopeStatus {
	all := make(map[string]engine.ScopeStatus, len(status.Scopes))
	for _, s := range status.Scopes {
		all[s.Name] = s
	}
	return all
}

// total formats a value; "" if unknown.
func total(c module.Column, v module.Value) string {
	switch {
	case !v.Known:
		return ""
	case v.Histogram != nil:
		return percentiles(*v.Histogram)
	}
	switch c.Unit {
	case module.Octets:
		return units.ByteSize(v.Number).String()
	case module.BitPerSecond:
		return units.BitRate(v.Number).Short()
	case module.Seconds:
		return milliseconds(v.Number)
	}
	return fmt.Sprintf("%.0f", v.Number)
}
