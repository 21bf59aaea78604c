// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/view"
	"weir/core/engine"
	"weir/core/module"
	"weir/internal/units"
)

// topDocument is weir-top/3.
type topDocument struct {
	Format     string             `json:"format"`
	Interval   float64            `json:"interval_s"`
	Controller *engine.Controller `json:"controller,omitempty"`
	Modules    []topModule        `json:"modules"`
}

// topModule holds the values of one module in an interval.
type topModule struct {
	Module  string          `json:"module"`
	Columns []module.Column `json:"columns"`
	Rows    []topRow        `json:"rows"`
	status  engine.ModuleStatus
}

// topRow is one scope or a part of it. Values maps the names of columns to values: the increase per
// second of a counter, percentiles of the interval's samples of a histogram.
type topRow struct {
	Scope   string              `json:"scope"`
	Applies string              `json:"applies_to"`
	Part    string              `json:"part,omitempty"`
	State   string              `json:"state"`
	Parent  string              `json:"parent,omitempty"`
	Share   float64             `json:"share"` // of the rate that Column.Of names, 0 to 1
	Values  map[string]topValue `json:"values"`
}

// topValue is a number, or two percentiles of a histogram: upper bounds of buckets that double in
// width, 0 without samples.
type topValue struct {
	Number float64  `json:"value"`
	P50    *float64 `json:"p50,omitempty"`
	P99    *float64 `json:"p99,omitempty"`
}

// topModules returns the values of all modules between two readings.
func topModules(before, after engine.Status, elapsed time.Duration) []topModule {
	was := map[string]engine.ModuleStatus{}
	for _, r := range before.Modules {
		was[r.Module] = r
	}
	all := []topModule{}
	for _, r := range after.Modules {
		all = append(all, topModule{Module: r.Module, Columns: r.Columns, Rows: topRows(was[r.Module], r, view.ScopesByName(after), elapsed), status: r})
	}
	return all
}

// topRows returns the rows of one module between two readings, by share, then by name.
func topRows(before, after engine.ModuleStatus, scopes map[string]engine.ScopeStatus, elapsed time.Duration) []topRow {
	type key struct{ scope, part string }
	was := map[key]engine.Values{}
	for _, row := range before.Rows {
		was[key{row.Scope, row.Part}] = row.Values
	}
	rows := []topRow{}
	for _, row := range after.Rows {
		s := scopes[row.Scope]
		one := topRow{Scope: row.Scope, Applies: s.Selector.String(), Part: row.Part, State: s.State, Parent: s.Parent, Values: map[string]topValue{}}
		one.compare(after.Columns, was[key{row.Scope, row.Part}], row.Values, elapsed)
		rows = append(rows, one)
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Part, b.Part))
	})
	return rows
}

// compare sets the values between two readings. A smaller counter belongs to a new data plane and
// started at zero.
func (r *topRow) compare(columns []module.Column, old, now engine.Values, elapsed time.Duration) {
	if slices.ContainsFunc(columns, func(c module.Column) bool { return c.Kind == module.Counter && now[c.Name].Count < old[c.Name].Count }) {
		old = engine.Values{}
	}
	compared := old != nil && elapsed > 0
	for _, c := range columns {
		value, known := now[c.Name]
		switch {
		case !known:
		case c.Kind == module.Gauge:
			r.Values[c.Name] = topValue{Number: value.Number}
		case !compared:
			r.Values[c.Name] = topValue{}
		case c.Kind == module.Histogram:
			r.Values[c.Name] = percentiles(old[c.Name].Histogram, value.Histogram)
		default:
			r.Values[c.Name] = topValue{Number: float64(value.Count-old[c.Name].Count) / elapsed.Seconds()}
		}
		if of := now[c.Of]; c.Of != "" && of.Known && of.Number > 0 {
			r.Share = r.Values[c.Name].Number * bitsOf(c.Unit) / of.Number
		}
	}
}

// percentiles returns percentiles of the samples between two readings of a histogram.
func percentiles(old, now *module.Buckets) topValue {
	if old == nil {
		old = &module.Buckets{}
	}
	since := now.Since(*old)
	p50, p99 := since.Percentile(0.5), since.Percentile(0.99)
	return topValue{P50: &p50, P99: &p99}
}

// bitsOf returns the bits of one unit, for the share of a bit rate.
func bitsOf(u module.Unit) float64 {
	if u == module.Octets {
		return 8
	}
	return 1
}

// topColumn is one column of the table: a value, or its share of a limit.
type topColumn struct {
	title string
	of    module.Column
	share bool
}

// topColumns returns the columns of a module's table between the scope's and the state.
func topColumns(all []module.Column) (columns []topColumn) {
	titles := map[string]string{}
	for _, c := range all {
		titles[c.Name] = c.Title
	}
	for _, c := range view.Shown(all, func(c module.Column) bool { return c.NoTop }) {
		switch {
		case c.Kind == module.Counter && c.Unit == module.Octets:
			columns = append(columns, topColumn{title: "rate", of: c})
		case c.Kind == module.Counter:
			columns = append(columns, topColumn{title: c.Title + "/s", of: c})
		case c.Kind == module.Histogram:
			columns = append(columns, topColumn{title: c.Title + " p50/p99", of: c})
		default:
			columns = append(columns, topColumn{title: c.Title, of: c})
		}
		if c.Of != "" {
			columns = append(columns, topColumn{title: "of " + titles[c.Of], of: c, share: true})
		}
	}
	return columns
}

// cells returns the row's text, one cell for each column of topHeader.
func (r topRow) cells(status engine.ModuleStatus) []string {
	cells := []string{r.Scope, r.Applies}
	if status.Part != "" {
		cells = append(cells, r.Part)
	}
	for _, c := range topColumns(status.Columns) {
		cells = append(cells, r.cell(c))
	}
	return append(cells, r.State)
}

// topHeader returns the column titles of a module's table.
func topHeader(status engine.ModuleStatus) []string {
	all := view.Lead(status)
	for _, c := range topColumns(status.Columns) {
		all = append(all, c.title)
	}
	return append(all, "state")
}

func (r topRow) cell(c topColumn) string {
	value, known := r.Values[c.of.Name]
	switch {
	case c.share:
		return fmt.Sprintf("%.1f %%", 100*r.Share)
	case c.of.Kind == module.Histogram && value.P50 != nil:
		return view.RoundTrips(*value.P50, *value.P99)
	case c.of.Kind == module.Histogram || !known && c.of.Kind == module.Counter:
		return "–"
	case c.of.Kind == module.Counter && c.of.Unit == module.Octets:
		return units.BitRate(8 * value.Number).Short()
	case c.of.Kind == module.Counter:
		return events(value.Number)
	}
	return view.Total(c.of, module.Value{Known: known, Number: value.Number})
}

// events formats a number per second; 0 is a dash, so that other values stand out.
func events(n float64) string {
	switch {
	case n == 0:
		return "–"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// bar draws a share as a bar of width cells, in steps of an eighth of a cell.
func bar(share float64, width int) string {
	eighths := int(min(max(share, 0), 1)*float64(width)*8 + 0.5)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text + strings.Repeat(" ", width-(eighths+7)/8)
}
