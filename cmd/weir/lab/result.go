// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"path/filepath"

	"weir/cmd/weir/cli"
	"weir/record"
	"weir/record/bundle"
	"weir/record/summary"
)

// printMeasured prints the tables, the verdicts and where the evidence is.
func printMeasured(a *cli.App, b *record.Bundle, dir string) error {
	if a.Format == "json" {
		manifest := b.Manifest
		manifest.Format, manifest.Source = record.FormatBundle, ""
		return a.JSON(cli.Result{Format: "weir-lab-result/1", Bundle: dir, Manifest: manifest,
			Rows: cli.OrEmpty(summary.Rows(b.Samples)), Tables: b.Tables, Verdicts: cli.OrEmpty(b.Verdicts)})
	}
	tables := b.Tables
	if len(b.Verdicts) > 0 {
		tables = append(tables, cli.VerdictTable(b.Verdicts))
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
	if dir == "" {
		return nil
	}
	fmt.Fprintln(a.Stdout, "Evidence: "+filepath.Join(dir, bundle.ReportFile))
	return nil
}
