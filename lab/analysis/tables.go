// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/stats"
	"weir/record/summary"
)

// tables returns the tables of the terminal and the report: the figures of every flow, the
// predictions of the equations, the harm, and published figures. rows holds flows that ran
// together; measured also holds flows that ran alone.
func tables(outcome *run.Outcome, rows, measured []summary.Row) []record.Table {
	var all []record.Table
	if t := resultTable(outcome, rows); len(t.Rows) > 0 {
		all = append(all, t)
	}
	if t, any := streamTable(outcome, rows); any {
		all = append(all, t)
	}
	if t, any := transferTable(outcome, rows); any {
		all = append(all, t)
	}
	if t, any := predictionTable(outcome, rows); any {
		all = append(all, t)
	}
	if t, any := harmTable(outcome, measured); any {
		all = append(all, t)
	}
	if t, any := limitsTable(outcome, rows); any {
		all = append(all, t)
	}
	if t, any := domainTable(outcome, rows); any {
		all = append(all, t)
	}
	if t, any := publishedTable(outcome.Scenario, rows); any {
		all = append(all, t)
	}
	if t := programTable(outcome); len(t.Rows) > 0 {
		all = append(all, t)
	}
	if t := rejectedTable(outcome); len(t.Rows) > 0 {
		all = append(all, t)
	}
	return all
}

// rejectedTable lists the rejected runs with their reasons.
func rejectedTable(outcome *run.Outcome) record.Table {
	t := record.Table{Title: "Rejected runs", Columns: []string{"run", "repetition", "attempt", "why it does not count"}}
	for i := range outcome.Results {
		r := &outcome.Results[i]
		if !r.Valid {
			t.Rows = append(t.Rows, []string{run.CellName(r.Cell), strconv.Itoa(r.Repetition), strconv.Itoa(r.Attempt), r.Reason()})
		}
	}
	return t
}

// rejectedOf counts the rejected runs of a cell, including runs that ended before any traffic.
func rejectedOf(outcome *run.Outcome, labels record.Labels) (count int) {
	own := remove(labels, scenario.PhaseLabel)
	for i := range outcome.Results {
		if r := &outcome.Results[i]; !r.Valid && maps.Equal(r.Cell.Labels, own) {
			count++
		}
	}
	return count
}

// column is a column of a result table: a metric, shown if any row has it.
type column struct {
	title, metric string
	interval      bool
	percent       bool
}

var flowColumns = []column{
	{"goodput", scenario.Goodput, true, false},
	{"share", scenario.FlowShare, false, true},
	{"Jain", scenario.JainIndex, false, false},
	{"exchanges", scenario.ExchangesPerSecond, true, false},
	{"p50", scenario.ExchangeP50, false, false},
	{"p99", scenario.ExchangeP99, true, false},
	{"RTT", scenario.SRTTMean, false, false},
	{"RTT p99", scenario.SRTTp99, false, false},
	{"retrans.", scenario.RetransmitShare, false, true},
	{"loss events", scenario.LossEventRate, false, true},
	{"CE", scenario.MarkedShare, false, true},
	{"lost", scenario.UDPLoss, true, true},
	{"reordered", scenario.UDPReordered, false, true},
}

var streamColumns = []column{
	{"sent", scenario.StreamSent, false, false},
	{"lost", scenario.StreamLoss, true, true},
	{"reordered", scenario.StreamReordered, false, true},
	{"duplicates", scenario.StreamDuplicates, false, true},
	{"delay min", scenario.OWDMin, false, false},
	{"p50", scenario.OWDp50, true, false},
	{"p99", scenario.OWDp99, true, false},
	{"max", scenario.OWDMax, false, false},
}

func resultTable(outcome *run.Outcome, rows []summary.Row) record.Table {
	t := grid(outcome, rows, flowColumns)
	t.Title = outcome.Scenario.Title
	t.Note = "Mean of the valid runs [95 % interval]. n: valid runs; rejected: runs with a failed testbed."
	return t
}

func streamTable(outcome *run.Outcome, rows []summary.Row) (record.Table, bool) {
	t := grid(outcome, rows, streamColumns)
	t.Title, t.Note = "Frame streams", "Mean of the valid runs [95 % interval]; delays are one way."
	return t, len(t.Rows) > 0
}

// grid makes one line per cell and subject, and drops columns without a value.
func grid(outcome *run.Outcome, rows []summary.Row, columns []column) record.Table {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(rows, func(row summary.Row) bool { return row.Metric == c.metric && interesting(row) })
	})
	labels := labelNames(outcome.Scenario, rows)
	t := record.Table{Columns: append(slices.Clone(labels), "flow")}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.title)
	}
	t.Columns = append(t.Columns, "n", "rejected")
	for _, lines := range subjects(rows, columns) {
		t.Rows = append(t.Rows, append(lines.cells(labels, columns), strconv.Itoa(rejectedOf(outcome, lines.labels))))
	}
	dropUniform(&t, "flow")
	dropUniform(&t, "rejected")
	return t
}

// interesting excludes metrics that could only show zeros, such as marks without ECN.
func interesting(row summary.Row) bool {
	return !slices.Contains(rare, row.Metric) || row.Estimate.Mean != 0
}

// rare lists metrics that are zero in most scenarios.
var rare = []string{scenario.MarkedShare, scenario.UDPReordered, scenario.IOAMLeftAlone, scenario.IOAMDropped, scenario.IOAMUnread,
	scenario.IOAMEdgeReordered, scenario.IOAMQueueP99}

// line holds all rows of one cell and subject.
type line struct {
	labels  record.Labels
	subject string
	rows    map[string]summary.Row
}

// subjects groups rows in their order, and drops the aggregate of a single flow.
func subjects(rows []summary.Row, columns []column) []line {
	var lines []line
	for _, row := range rows {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.metric == row.Metric }) {
			continue
		}
		i := slices.IndexFunc(lines, func(l line) bool { return l.subject == row.Subject && maps.Equal(l.labels, row.Labels) })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{labels: row.Labels, subject: row.Subject, rows: map[string]summary.Row{}})
		}
		lines[i].rows[row.Metric] = row
	}
	return slices.DeleteFunc(lines, func(l line) bool {
		_, several := l.rows[scenario.JainIndex]
		return l.subject == scenario.Aggregate && !several
	})
}

func (l line) cells(labels []string, columns []column) []string {
	var cells []string
	for _, name := range labels {
		cells = append(cells, l.labels[name])
	}
	cells = append(cells, l.subject)
	n := 0
	for _, c := range columns {
		row, have := l.rows[c.metric]
		if !have {
			cells = append(cells, "")
			continue
		}
		n = max(n, row.Estimate.N)
		cells = append(cells, c.text(row))
	}
	return append(cells, strconv.Itoa(n))
}

// text prints a cell: "373.2 Mbit/s [360–390 Mbit/s]".
func (c column) text(row summary.Row) string {
	e, unit := row.Estimate, row.Unit
	if c.percent {
		e, unit = scaled(e, 100), percent
	}
	mean, interval := summary.Cells(e, unit)
	if _, _, ok := e.Interval(); c.interval && ok {
		mean += " [" + interval + "]"
	}
	return mean
}

func scaled(e stats.Estimate, factor float64) stats.Estimate {
	by := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		w := *v * factor
		return &w
	}
	return stats.Estimate{N: e.N, Mean: e.Mean * factor, Low: by(e.Low), High: by(e.High), StdDev: by(e.StdDev)}
}

// labelNames returns the varied parameters in the scenario's order, then all other labels.
func labelNames(s *scenario.Scenario, rows []summary.Row) []string {
	var names []string
	for _, parameter := range s.Parameters {
		names = append(names, parameter.Name)
	}
	for _, row := range rows {
		for _, name := range slices.Sorted(maps.Keys(row.Labels)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(rows, func(row summary.Row) bool { return row.Labels[name] != "" })
	})
}

// dropUniform removes a column with the same text in every row.
func dropUniform(t *record.Table, name string) {
	i := slices.Index(t.Columns, name)
	for _, row := range t.Rows {
		if row[i] != t.Rows[0][i] || name == "rejected" && row[i] != "0" {
			return
		}
	}
	t.Columns = slices.Delete(t.Columns, i, i+1)
	for r := range t.Rows {
		t.Rows[r] = slices.Delete(t.Rows[r], i, i+1)
	}
}

// publishedTable compares published figures with the measured ones.
func publishedTable(s *scenario.Scenario, rows []summary.Row) (record.Table, bool) {
	t := record.Table{Title: "Beside published figures", Columns: []string{"where", "metric", "published", "measured here", "source"}}
	for _, p := range s.Published {
		for _, row := range rows {
			if row.Metric != p.Metric || row.Subject != subject(p.Subject) || !matches(row.Labels, p.Where) {
				continue
			}
			f, missing := measured(rows, row, p.RelativeTo)
			text, unit, metric := f.text(), row.Unit, p.Metric
			if missing != "" {
				text = missing
			}
			if p.RelativeTo != nil {
				unit = record.Share
				metric += " / that at " + summary.Text(p.RelativeTo)
			}
			t.Rows = append(t.Rows, []string{summary.Text(row.Labels), metric, unit.Format(p.Value), text, p.Source})
		}
	}
	return t, len(t.Rows) > 0
}

// notes lists the conditions that a reader of the bundle needs to know.
func notes(outcome *run.Outcome) []string {
	all := append(slices.Clone(outcome.Notes), cutNotes(outcome)...)
	rejected := 0
	for _, result := range outcome.Results {
		if !result.Valid {
			rejected++
		}
	}
	if rejected > 0 {
		all = append(all, fmt.Sprintf("%d of %d runs were rejected because their testbed failed; they do not count", rejected, len(outcome.Results)))
	}
	for _, u := range outcome.Unfit {
		all = append(all, u.Error())
	}
	if outcome.Stopped {
		all = append(all, "stopped by the user before all runs were done")
	}
	return all
}
