// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"slices"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/summary"
)

// Reserved names in a scenario's figures.
const (
	overTime  = "time"    // as X: a time series
	bySubject = "subject" // as Series: a curve per flow
)

// figures draws the figures that the scenario requests: sweeps, time series of representative runs,
// and distributions of delays.
func figures(outcome *run.Outcome, rows []summary.Row, b *record.Bundle) []record.Figure {
	var all []record.Figure
	for _, request := range outcome.Scenario.Figures {
		if request.X == overTime {
			all = append(all, timelines(b, request)...)
			continue
		}
		all = append(all, sweepFigures(outcome, rows, request)...)
	}
	for _, metric := range []string{scenario.SeriesRate, scenario.SeriesCwnd, scenario.SeriesSRTT, scenario.SeriesQueue} {
		if !slices.ContainsFunc(outcome.Scenario.Figures, func(r scenario.FigureRequest) bool { return r.X == overTime && r.Metric == metric }) {
			all = append(all, timelines(b, scenario.FigureRequest{Metric: metric, Name: metric + "-over-time", Title: timelineTitles[metric]})...)
		}
	}
	return append(all, distributionFigures(b)...)
}

// sweepFigures draws a metric over one parameter, with one curve for each value of a second
// parameter. Each combination of the other parameters is a figure of its own.
func sweepFigures(outcome *run.Outcome, rows []summary.Row, request scenario.FigureRequest) []record.Figure {
	var own []summary.Row
	var values []string
	for _, row := range rows {
		if row.Metric != request.Metric || row.Estimate.N == 0 || !isSubject(row.Subject, request) {
			continue
		}
		value, varied := row.Labels[request.X]
		if !varied {
			continue
		}
		own = append(own, row)
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	x := axisOf(request.X, values)
	var all []record.Figure
	rests := combinations(own, request.X, request.Series)
	for _, rest := range rests {
		group := slices.DeleteFunc(slices.Clone(own), func(row summary.Row) bool { return !matches(row.Labels, rest) })
		figure := sweepFigure(outcome, rows, group, request, x, rest)
		if differing := distinct(rest, rests); len(differing) > 0 {
			figure.Name += "-" + fileName(differing)
		}
		all = append(all, figure)
	}
	return all
}

func isSubject(name string, request scenario.FigureRequest) bool {
	if request.Series == bySubject && request.Subject == "" {
		return name != scenario.Aggregate
	}
	return name == subject(request.Subject)
}

// combinations returns the distinct labels of rows without the given names.
func combinations(rows []summary.Row, without ...string) []record.Labels {
	var all []record.Labels
	for _, row := range rows {
		labels := remove(row.Labels, without...)
		if !slices.ContainsFunc(all, func(l record.Labels) bool { return maps.Equal(l, labels) }) {
			all = append(all, labels)
		}
	}
	return all
}

func remove(labels record.Labels, names ...string) record.Labels {
	rest := record.Labels{}
	for name, value := range labels {
		if !slices.Contains(names, name) {
			rest[name] = value
		}
	}
	return rest
}

func sweepFigure(outcome *run.Outcome, rows, group []summary.Row, request scenario.FigureRequest, x axis, rest record.Labels) record.Figure {
	metric, _, _ := scenario.FindMetric(request.Metric)
	figure := record.Figure{
		Name: request.Name, Title: request.Title, Kind: record.Lines, LogY: request.LogY,
		XLabel: request.X, XUnit: x.unit, YLabel: request.Metric, YUnit: metric.Unit,
	}
	if len(rest) > 0 {
		figure.Title += ": " + summary.Text(rest)
	}
	figure.Subtitle = "mean and 95 % interval of the valid repetitions"
	if x.names != nil {
		figure.Kind, figure.XNames = record.BarChart, x.names
	}
	names, curves := map[string]int{}, []record.Curve{}
	for _, row := range group {
		name := seriesName(row, request)
		i, known := names[name]
		if !known {
			i = len(curves)
			names[name] = i
			curves = append(curves, record.Curve{Name: name})
		}
		low, high, _ := row.Estimate.Interval()
		c := &curves[i]
		c.X, c.Y = append(c.X, x.at[row.Labels[request.X]]), append(c.Y, row.Estimate.Mean)
		c.Low, c.High = append(c.Low, low), append(c.High, high)
	}
	for i := range curves {
		sortCurve(&curves[i])
	}
	if beside := references(outcome, rows, group, request, x, rest); len(beside) > 0 {
		figure.Subtitle += "; dashed: published figures, and Mathis' equation at the measured loss and RTT"
		curves = append(curves, beside...)
	}
	figure.Curves = curves
	return figure
}

func seriesName(row summary.Row, request scenario.FigureRequest) string {
	switch request.Series {
	case "":
		return request.Metric
	case bySubject:
		return row.Subject
	}
	return row.Labels[request.Series]
}

// sortCurve orders a curve's points by X.
func sortCurve(c *record.Curve) {
	order := make([]int, len(c.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case c.X[i] < c.X[j]:
			return -1
		case c.X[i] > c.X[j]:
			return 1
		}
		return 0
	})
	pick := func(from []float64) []float64 {
		if from == nil {
			return nil
		}
		to := make([]float64, len(from))
		for i, j := range order {
			to[i] = from[j]
		}
		return to
	}
	c.X, c.Y, c.Low, c.High = pick(c.X), pick(c.Y), pick(c.Low), pick(c.High)
}
