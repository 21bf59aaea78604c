// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"weir/record"
	"weir/record/summary"
)

// FormatSummary is the version of the summary document.
const FormatSummary = "weir-summary/1"

// Summary is the JSON document of a bundle for --format json. New fields do not change its version.
type Summary struct {
	Format   string           `json:"format"`
	Manifest record.Manifest  `json:"manifest"`
	Rows     []summary.Row    `json:"rows"`
	Verdicts []record.Verdict `json:"verdicts"`
}

// Summarize condenses a bundle: one row per quantity, over all valid repetitions.
func Summarize(b *record.Bundle) Summary {
	return Summary{Format: FormatSummary, Manifest: b.Manifest, Rows: orEmpty(summary.Rows(b.Samples)), Verdicts: orEmpty(b.Verdicts)}
}
