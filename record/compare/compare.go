// SPDX-License-Identifier: Apache-2.0

// Package compare lists the differences of two bundles, and tests whether chance explains them.
//
// Every common quantity is compared by Welch's t test. Many comparisons at once find differences by
// chance alone, so significance is judged after Holm's correction over all of them.
package compare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/record"
	"weir/record/stats"
	"weir/record/summary"
)

// Side names the bundle with a quantity.
type Side string

const (
	Both  Side = "both"
	OnlyA Side = "only first"
	OnlyB Side = "only second"
)

// Row is one quantity in both bundles: second compared with first.
type Row struct {
	Labels     record.Labels    `json:"labels"`
	Subject    string           `json:"subject"`
	Metric     string           `json:"metric"`
	Unit       record.Unit      `json:"unit"`
	Side       Side             `json:"side"`
	A          stats.Estimate   `json:"a"`
	B          stats.Estimate   `json:"b"`
	Difference stats.Difference `json:"difference"` // second minus first, zero unless Side is Both
	// Adjusted is P after Holm's correction; nil if one side has fewer than two valid repetitions.
	Adjusted *float64 `json:"adjusted_p,omitempty"`
	// Significant reports that Adjusted is below 5 %.
	Significant bool `json:"significant"`
}

// Result is the comparison of two bundles. Rows are in the order of [summary.Rows].
type Result struct {
	A, B record.Manifest `json:"-"`
	Rows []Row           `json:"rows"`
}

// Compare compares all quantities of two bundles. A quantity is identified by labels, subject,
// metric and unit. One without a valid repetition counts as missing on that side; missing on both,
// it is omitted.
func Compare(a, b *record.Bundle) Result {
	first, second := byKey(a.Samples), byKey(b.Samples)
	result := Result{A: a.Manifest, B: b.Manifest}
	for key, x := range first {
		if y, both := second[key]; both {
			result.Rows = append(result.Rows, compared(x, y))
		} else {
			result.Rows = append(result.Rows, oneSided(x, OnlyA))
		}
	}
	for key, y := range second {
		if _, both := first[key]; !both {
			result.Rows = append(result.Rows, oneSided(y, OnlyB))
		}
	}
	slices.SortFunc(result.Rows, func(x, y Row) int { return summary.CompareRows(x.key(), y.key()) })
	correct(result.Rows)
	return result
}

func byKey(samples []record.Sample) map[summary.Key]summary.Row {
	rows := map[summary.Key]summary.Row{}
	for _, row := range summary.Rows(samples) {
		if row.Estimate.N > 0 {
			rows[summary.KeyOf(row.Labels, row.Subject, row.Metric, row.Unit)] = row
		}
	}
	return rows
}

func compared(x, y summary.Row) Row {
	return Row{Labels: x.Labels, Subject: x.Subject, Metric: x.Metric, Unit: x.Unit, Side: Both,
		A: x.Estimate, B: y.Estimate, Difference: stats.Welch(x.Values, y.Values)}
}

func oneSided(x summary.Row, side Side) Row {
	row := Row{Labels: x.Labels, Subject: x.Subject, Metric: x.Metric, Unit: x.Unit, Side: side}
	if side == OnlyA {
		row.A = x.Estimate
	} else {
		row.B = x.Estimate
	}
	return row
}

func (r Row) key() summary.Row {
	return summary.Row{Labels: r.Labels, Subject: r.Subject, Metric: r.Metric, Unit: r.Unit}
}

// correct judges all testable rows as one family.
func correct(rows []Row) {
	var tested []int
	var p []float64
	for i, row := range rows {
		if row.Difference.P != nil {
			tested = append(tested, i)
			p = append(p, *row.Difference.P)
		}
	}
	for rank, adjusted := range stats.Holm(p) {
		row := &rows[tested[rank]]
		row.Adjusted = &adjusted
		row.Significant = adjusted < 1-stats.Confidence
	}
}

// Differing returns the relevant rows: significant ones, those of one side only, and different ones
// with too few repetitions.
func (r Result) Differing() []Row {
	var rows []Row
	for _, row := range r.Rows {
		if row.Side != Both || row.Significant || (row.Adjusted == nil && row.Difference.Value != 0) {
			rows = append(rows, row)
		}
	}
	return rows
}

// All returns every common quantity without a significant difference, for people.
func (r Result) All() record.Table {
	var same []Row
	differing := r.Differing()
	for _, row := range r.Rows {
		if !slices.ContainsFunc(differing, func(d Row) bool {
			return d.key().Subject == row.Subject && d.Metric == row.Metric && d.Unit == row.Unit && maps.Equal(d.Labels, row.Labels)
		}) {
			same = append(same, row)
		}
	}
	t := table(same)
	t.Title, t.Note = "No significant difference", fmt.Sprintf("%d common quantities without a significant difference.", len(same))
	return t
}

// Table returns the differing rows; its note counts the compared and equal ones.
func (r Result) Table() record.Table {
	rows := r.Differing()
	both, significant := 0, 0
	for _, row := range r.Rows {
		if row.Side == Both {
			both++
		}
		if row.Significant {
			significant++
		}
	}
	t := table(rows)
	t.Note = fmt.Sprintf("%d of %d quantities in common differ significantly (Welch's t test, 5 %% after Holm's correction; "+
		"the intervals are those of each comparison alone).", significant, both)
	return t
}

// table writes rows, with a column per label.
func table(rows []Row) record.Table {
	seen := map[string]bool{}
	for _, row := range rows {
		for key := range row.Labels {
			seen[key] = true
		}
	}
	keys := slices.Sorted(maps.Keys(seen))
	t := record.Table{Title: "What differs", Columns: append(slices.Clone(keys), "subject", "metric", "first", "second",
		"difference", "95 % interval", "change", "verdict")}
	for _, row := range rows {
		cells := make([]string, 0, len(t.Columns))
		for _, key := range keys {
			cells = append(cells, row.Labels[key])
		}
		t.Rows = append(t.Rows, append(cells, row.cells()...))
	}
	return t
}

// cells prints a row without its labels.
func (r Row) cells() []string {
	a, _ := summary.Cells(r.A, r.Unit)
	b, _ := summary.Cells(r.B, r.Unit)
	difference, interval, change, verdict := "–", "–", "–", "missing in the first"
	switch r.Side {
	case OnlyA:
		verdict = "missing in the second"
	case Both:
		difference = r.Unit.Format(r.Difference.Value)
		if r.A.Mean != 0 {
			change = percent(r.Difference.Value / r.A.Mean)
		}
		verdict = "too few repetitions to judge"
		if r.Adjusted != nil {
			interval = r.Unit.FormatInterval(*r.Difference.Low, *r.Difference.High)
			verdict = "no difference"
			if r.Significant {
				verdict = "differs"
			}
		}
	}
	return []string{r.Subject, r.Metric, a, b, difference, interval, change, verdict}
}

func percent(share float64) string {
	text := strconv.FormatFloat(share*100, 'f', 1, 64) + " %"
	if share > 0 {
		return "+" + text
	}
	return text
}
