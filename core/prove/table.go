// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/core/module"
	"weir/internal/units"
	"weir/record"
	"weir/record/summary"
)

// cell is one column of a table of rows.
type cell struct {
	title string
	text  func(Row) string
}

const nothing = "–"

// where restricts f to measured rows.
func where(f func(Row) string) func(Row) string {
	return func(r Row) string {
		if r.Measured.N == 0 {
			return nothing
		}
		return f(r)
	}
}

// RowTables returns tables of promises and results, one for each check of each module.
func (r *Result) RowTables() (all []record.Table) {
	var rest []Row
	for left := r.Rows; len(left) > 0; left, rest = rest, nil {
		var together []Row
		for _, one := range left {
			if one.Module == left[0].Module && one.Check == left[0].Check {
				together = append(together, one)
			} else {
				rest = append(rest, one)
			}
		}
		all = append(all, tableOf(together))
	}
	return all
}

// tableOf returns the table of one check.
func tableOf(rows []Row) record.Table {
	t := record.Table{Title: named(rows[0].Module, rows[0].Check),
		Note: "Wire octets (IP packet and 14) at the receiver, or by the scope's counters where it had other traffic as well."}
	cells := cellsOf(rows)
	for _, c := range cells {
		t.Columns = append(t.Columns, c.title)
	}
	for _, one := range rows {
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = c.text(one)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func cellsOf(rows []Row) []cell {
	cells := []cell{{"scope", func(r Row) string { return r.Scope }}}
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Part != "" }) {
		cells = append(cells, cell{rows[0].partHeading(), func(r Row) string { return r.Part }})
	}
	cells = append(cells, cell{"path", func(r Row) string { return r.Path.String() }},
		cell{"promised", func(r Row) string {
			if r.Promise.Rate > 0 {
				return r.Promise.Rate.String()
			}
			return r.Promise.Words
		}},
		cell{"measured", where(func(r Row) string { mean, _ := summary.Cells(r.Measured, record.BitPerSecond); return mean })},
		cell{"95 % interval", where(func(r Row) string { _, interval := summary.Cells(r.Measured, record.BitPerSecond); return interval })})
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Promise.Rate > 0 }) {
		cells = append(cells, cell{"share", where(func(r Row) string { return fmt.Sprintf("%.1f %%", 100*r.Share) })})
	}
	cells = append(cells, cell{"extra delay", func(r Row) string {
		if r.ExtraDelay == nil || r.ExtraDelay.N == 0 {
			return nothing
		}
		return units.Duration(math.Round(r.ExtraDelay.Mean*1e6) * 1e3).String()
	}})
	cells = append(cells, lossCells(rows)...)
	for _, name := range rows[0].shown {
		cells = append(cells, cell{name, where(func(r Row) string { return fmt.Sprint(r.Counters[name]) })})
	}
	return append(cells, cell{"verdict", func(r Row) string { return string(r.Verdict) }})
}

// lossCells returns the columns of losses and delays for users; small packets add columns if they
// were sent.
func lossCells(rows []Row) []cell {
	of := func(f func(*module.Losses) string) func(Row) string {
		return func(r Row) string {
			if r.Losses == nil {
				return nothing
			}
			return f(r.Losses)
		}
	}
	probed := func(f func(*module.Losses) string) func(Row) string {
		return of(func(l *module.Losses) string {
			if l.Sent == 0 {
				return nothing
			}
			return f(l)
		})
	}
	cells := []cell{{"lost or retransmitted", of(func(l *module.Losses) string { return percent(l.Again) })}}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Losses != nil && r.Losses.Sent > 0 }) {
		return cells
	}
	return append(cells,
		cell{"small packets lost", probed(func(l *module.Losses) string { return fmt.Sprintf("%d of %d", l.Lost, l.Sent) })},
		cell{"idle, p50, p99", probed(func(l *module.Losses) string {
			return fmt.Sprintf("%s, %s, %s", coarse(l.Idle), coarse(l.P50), coarse(l.P99))
		})})
}

func percent(share float64) string { return fmt.Sprintf("%.2g %%", 100*share) }

// coarse formats a time to the microsecond.
func coarse(d time.Duration) string {
	return units.Duration(d.Round(time.Microsecond)).String()
}

// BypassTable returns the table of bypasses.
func (r *Result) BypassTable() record.Table {
	t := record.Table{Title: "Bypasses", Columns: []string{"scope", "module", "bypass", "result", "charged", "why"}}
	for _, b := range r.Bypasses {
		charged := nothing
		if b.Charged != nil {
			charged = fmt.Sprintf("%.2f times", *b.Charged)
		}
		t.Rows = append(t.Rows, []string{b.Scope, b.Module, b.Name, string(b.State), charged, b.Why})
	}
	return t
}
