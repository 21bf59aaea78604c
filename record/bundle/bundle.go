// SPDX-License-Identifier: Apache-2.0

// Package bundle writes an evidence bundle to a folder and reads it back. docs/formats/bundle.md
// describes the files.
//
// Write works on a temporary folder beside the target and renames it at the end, so that the target
// is either unchanged or complete. Rows with equal labels share one map after Read: do not change
// it in place.
package bundle

import (
	"errors"
	"io/fs"
	"syscall"

	"weir/internal/fault"
)

// Names of the files of a bundle.
const (
	ManifestFile      = "manifest.json"
	SamplesFile       = "samples.parquet"
	SeriesFile        = "series.parquet"
	DistributionsFile = "distributions.parquet"
	VerdictsFile      = "verdicts.json"
	TablesFile        = "tables.json"
	FiguresFile       = "figures.json"
	ProofsFile        = "proofs.json"
	SummaryFile       = "summary.json"
	CSVFile           = "samples.csv"
	JUnitFile         = "junit.xml"
	ReportFile        = "report.html"
	PlotsFolder       = "plots"
	AttachmentsFolder = "attachments"
	SumsFile          = "SHA256SUMS"
)

// explain adds advice to an error of the file system.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(err, fault.Failed, "free some space or choose a folder on another disk; nothing was left in "+dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.Wrap(err, fault.Permission, "choose a folder that you may write to")
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EXDEV):
		return fault.Wrap(err, fault.Usage, "choose a folder inside "+dir+": a mounted one cannot be replaced as a whole")
	}
	return err
}
