// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"weir/cmd/weir/cli"
	"weir/record"
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
	if err := a.PrintTables(*b); err != nil {
		return err
	}
	a.PrintEvidence(dir)
	return nil
}
