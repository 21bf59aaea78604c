// SPDX-License-Identifier: Apache-2.0

// Package summary condenses the samples of a bundle: one row with an estimate per labels, subject,
// metric and unit.
//
// Samples that are not valid never enter an estimate; a row has their number. A value that is not
// finite counts as not valid.
package summary

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/record"
	"weir/record/stats"
)

// Row is one measured quantity over all its repetitions.
type Row struct {
	Labels   record.Labels  `json:"labels"`
	Subject  string         `json:"subject"`
	Metric   string         `json:"metric"`
	Unit     record.Unit    `json:"unit"`
	Estimate stats.Estimate `json:"estimate"`
	Invalid  int            `json:"invalid,omitempty"` // omitted samples
	Values   []float64      `json:"-"`                 // inputs of the estimate, by repetition
}

// Key identifies a row.
type Key string

// KeyOf returns the key of a quantity. Two quantities have one key only if labels, subject, metric
// and unit are equal.
func KeyOf(labels record.Labels, subject, metric string, unit record.Unit) Key {
	var b strings.Builder
	add := func(s string) {
		b.WriteString(strconv.Itoa(len(s))) // lengths make it unambiguous
		b.WriteByte(':')
		b.WriteString(s)
	}
	add(subject)
	add(metric)
	add(string(unit))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		add(key)
		add(labels[key])
	}
	return Key(b.String())
}

// Rows groups samples and estimates each group. The order is that of the labels (see
// [CompareLabels]), then of the subject, the metric and the unit, for any order of the samples. A
// group without a valid sample gives a row with N = 0.
func Rows(samples []record.Sample) []Row {
	groups := map[Key]*group{}
	for _, s := range samples {
		key := KeyOf(s.Labels, s.Subject, s.Metric, s.Unit)
		g := groups[key]
		if g == nil {
			g = &group{row: Row{Labels: s.Labels, Subject: s.Subject, Metric: s.Metric, Unit: s.Unit}}
			groups[key] = g
		}
		g.add(s)
	}
	rows := make([]Row, 0, len(groups))
	for _, g := range groups {
		rows = append(rows, g.estimate())
	}
	slices.SortFunc(rows, CompareRows)
	return rows
}

// CompareRows is the order of Rows.
func CompareRows(a, b Row) int {
	return cmp.Or(CompareLabels(a.Labels, b.Labels), Compare(a.Subject, b.Subject), cmp.Compare(a.Metric, b.Metric),
		cmp.Compare(a.Unit, b.Unit))
}

// Find returns the row of a quantity, with any unit.
func Find(rows []Row, labels record.Labels, subject, metric string) (Row, bool) {
	for _, row := range rows {
		if row.Subject == subject && row.Metric == metric && maps.Equal(row.Labels, labels) {
			return row, true
		}
	}
	return Row{}, false
}

type group struct {
	row   Row
	valid []record.Sample
}

func (g *group) add(s record.Sample) {
	if !s.Valid || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		g.row.Invalid++
		return
	}
	g.valid = append(g.valid, s)
}

func (g *group) estimate() Row {
	slices.SortStableFunc(g.valid, func(a, b record.Sample) int {
		return cmp.Or(cmp.Compare(a.Repetition, b.Repetition), cmp.Compare(a.Attempt, b.Attempt))
	})
	for _, s := range g.valid {
		g.row.Values = append(g.row.Values, s.Value)
	}
	g.row.Estimate = stats.Of(g.row.Values)
	return g.row
}

// Table writes rows for people: a column per label, then subject, metric, mean, 95 % interval and
// number of repetitions.
func Table(title string, rows []Row) record.Table {
	keys := labelKeys(rows)
	table := record.Table{Title: title, Note: "Mean of all valid repetitions with its 95 % confidence interval (Student t)."}
	table.Columns = append(slices.Clone(keys), "subject", "metric", "mean", "95 % interval", "n", "rejected")
	for _, row := range rows {
		cells := make([]string, 0, len(table.Columns))
		for _, key := range keys {
			cells = append(cells, row.Labels[key])
		}
		mean, interval := Cells(row.Estimate, row.Unit)
		cells = append(cells, row.Subject, row.Metric, mean, interval, strconv.Itoa(row.Estimate.N), rejected(row.Invalid))
		table.Rows = append(table.Rows, cells)
	}
	return table
}

// Cells prints an estimate for a table: its mean and its interval, "–" for a missing one.
func Cells(e stats.Estimate, unit record.Unit) (mean, interval string) {
	mean, interval = "–", "–"
	if e.N > 0 {
		mean = unit.Format(e.Mean)
	}
	if low, high, ok := e.Interval(); ok {
		interval = unit.FormatInterval(low, high)
	}
	return mean, interval
}

func rejected(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// labelKeys returns the label names in use, in alphabetical order.
func labelKeys(rows []Row) []string {
	seen := map[string]bool{}
	for _, row := range rows {
		for key := range row.Labels {
			seen[key] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
