// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/version"
	"weir/record"
	"weir/record/bundle"
	"weir/record/machine"
	"weir/record/summary"
)

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

// OrEmpty makes a missing list an empty one, for JSON.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Result is the document of weir lab run --format json.
type Result struct {
	Format   string           `json:"format"`
	Bundle   string           `json:"bundle"`
	Manifest record.Manifest  `json:"manifest"`
	Rows     []summary.Row    `json:"rows"`
	Tables   []record.Table   `json:"tables,omitempty"` // as the terminal shows them
	Verdicts []record.Verdict `json:"verdicts"`
}

func VerdictTable(verdicts []record.Verdict) record.Table {
	t := record.Table{Title: "Verdicts", Columns: []string{"verdict", "statement", "where", "expected", "measured"}}
	for _, v := range verdicts {
		measured := v.Measured
		if v.Reason != "" {
			measured += "; " + v.Reason
		}
		t.Rows = append(t.Rows, []string{string(v.Outcome), v.Name, summary.Text(v.Labels), v.Expected, measured})
	}
	return t
}

// Keep completes the manifest and writes the bundle, if requested.
func (a *App) Keep(b *record.Bundle, dir string) error {
	b.Manifest.Version, b.Manifest.Command, b.Manifest.Machine = version.Number, a.Args, machine.Describe()
	if dir == "" {
		return nil
	}
	return bundle.Write(dir, b)
}

// PrintTables prints tables, verdicts and notes for people.
func (a *App) PrintTables(b record.Bundle) error {
	tables := b.Tables
	if len(b.Verdicts) > 0 {
		tables = append(tables, VerdictTable(b.Verdicts))
	}
	for _, t := range tables {
		if err := a.Table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.Stdout)
	}
	for _, note := range b.Manifest.Notes {
		fmt.Fprintln(a.Stdout, "Note: "+note)
	}
	return nil
}

// PrintEvidence names the report of a bundle in a folder, "" for none.
func (a *App) PrintEvidence(dir string) {
	if dir != "" {
		fmt.Fprintln(a.Stdout, "Evidence: "+filepath.Join(dir, bundle.ReportFile))
	}
}

// PrintBundle prints tables, verdicts, notes and mechanisms for people.
func (a *App) PrintBundle(b record.Bundle, dir string) error {
	if err := a.PrintTables(b); err != nil {
		return err
	}
	var ways []string
	for what, how := range b.Manifest.Mechanisms {
		ways = append(ways, what+": "+how)
	}
	if len(ways) > 0 {
		fmt.Fprintln(a.Stdout, "Mechanism: "+strings.Join(sorted(ways), ", "))
	}
	a.PrintEvidence(dir)
	return nil
}
