// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"strconv"

	"weir/lab/expect"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/stats"
	"weir/record/summary"
)

// figure is a measured mean, or a ratio of two means, with its interval.
type figure struct {
	value     float64
	low, high *float64
	n         int
	base      int // repetitions of the denominator; 0 for a mean
	unit      record.Unit
}

// text prints it as "373.2 Mbit/s (95 %: 360–390 Mbit/s, n = 5)", a ratio as "0.42 (95 %: 0.4–0.44,
// n = 5 / 3)".
func (f figure) text() string {
	unit, n := f.unit, "n = "+strconv.Itoa(f.n)
	if f.base > 0 {
		n += " / " + strconv.Itoa(f.base)
	}
	if f.low == nil || f.high == nil {
		return unit.Format(f.value) + " (" + n + ")"
	}
	return unit.Format(f.value) + " (95 %: " + unit.FormatInterval(*f.low, *f.high) + ", " + n + ")"
}

// matches reports whether labels hold every name and value of where.
func matches(labels, where record.Labels) bool {
	for name, value := range where {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// measured looks up a metric in one row's cell, or its ratio to the cell that relative names.
func measured(rows []summary.Row, row summary.Row, relative record.Labels) (figure, string) {
	if row.Estimate.N == 0 {
		return figure{}, "no valid run"
	}
	if relative == nil {
		e := row.Estimate
		return figure{value: e.Mean, low: e.Low, high: e.High, n: e.N, unit: row.Unit}, ""
	}
	labels := maps.Clone(row.Labels)
	maps.Copy(labels, relative)
	base, known := summary.Find(rows, labels, row.Subject, row.Metric)
	if !known || base.Estimate.N == 0 {
		return figure{}, "no valid run of the base of the comparison: " + summary.Text(labels)
	}
	ratio, ok := stats.Ratio(row.Values, base.Values)
	if !ok {
		return figure{}, "the mean of the base of the comparison is 0"
	}
	return figure{value: ratio.Value, low: ratio.Low, high: ratio.High, n: row.Estimate.N, base: base.Estimate.N, unit: record.Share}, ""
}

// verdicts judges every expectation in every cell to which it applies.
func verdicts(s *scenario.Scenario, rows []summary.Row) []record.Verdict {
	var all []record.Verdict
	for _, expectation := range s.Expect {
		found := false
		for _, row := range rows {
			if row.Metric != expectation.Metric || row.Subject != subject(expectation.Subject) || !matches(row.Labels, expectation.Where) {
				continue
			}
			found = true
			all = append(all, judge(expectation, rows, row))
		}
		if !found {
			all = append(all, record.Verdict{
				Name: expectation.Name, Labels: expectation.Where, Expected: expected(expectation), Measured: "–",
				Outcome: record.NotMeasured, Reason: "no run measured " + expectation.Metric + " of " + subject(expectation.Subject),
			})
		}
	}
	return all
}

func subject(name string) string {
	if name == "" {
		return scenario.Aggregate
	}
	return name
}

func judge(e scenario.Expectation, rows []summary.Row, row summary.Row) record.Verdict {
	verdict := record.Verdict{Name: e.Name, Labels: row.Labels, Expected: expected(e), Measured: "–", Outcome: record.NotMeasured}
	f, missing := measured(rows, row, e.RelativeTo)
	if missing != "" {
		verdict.Reason = missing
		return verdict
	}
	verdict.Measured = f.text()
	verdict.Outcome, verdict.Reason = e.Judge(expect.Estimate{Mean: f.value, Low: f.low, High: f.high})
	return verdict
}

// expected prints the expectation: "share of srtt_mean at loss=0%: at most 0.4".
func expected(e scenario.Expectation) string {
	metric, _, _ := scenario.FindMetric(e.Metric)
	unit, what := metric.Unit, e.Metric+" of "+subject(e.Subject)
	if e.RelativeTo != nil {
		unit = record.Share
		what += " / that at " + summary.Text(e.RelativeTo)
	}
	return what + ": " + e.Words(unit)
}
