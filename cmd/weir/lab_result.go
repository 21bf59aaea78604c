// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"weir/record"
	"weir/record/bundle"
	"weir/record/summary"
)

// labResult is the document of weir lab run --format json.
type labResult struct {
	Format   string           `json:"format"`
	Bundle   string           `json:"bundle"`
	Manifest record.Manifest  `json:"manifest"`
	Rows     []summary.Row    `json:"rows"`
	Tables   []record.Table   `json:"tables,omitempty"` // as the terminal shows them
	Verdicts []record.Verdict `json:"verdicts"`
}

// printMeasured prints the tables, the verdicts and where the evidence is.
func (a *app) printMeasured(b *record.Bundle, dir string) error {
	if a.format == "json" {
		manifest := b.Manifest
		manifest.Format, manifest.Source = record.FormatBundle, ""
		return a.json(labResult{Format: "weir-lab-result/1", Bundle: dir, Manifest: manifest,
			Rows: orEmpty(summary.Rows(b.Samples)), Tables: b.Tables, Verdicts: orEmpty(b.Verdicts)})
	}
	tables := b.Tables
	if len(b.Verdicts) > 0 {
		tables = append(tables, verdictTable(b.Verdicts))
	}
	for _, t := range tables {
		if err := a.table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	for _, note := range b.Manifest.Notes {
		fmt.Fprintln(a.stdout, "Note: "+note)
	}
	if dir == "" {
		return nil
	}
	fmt.Fprintln(a.stdout, "Evidence: "+filepath.Join(dir, bundle.ReportFile))
	return nil
}

func verdictTable(verdicts []record.Verdict) record.Table {
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
