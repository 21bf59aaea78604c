// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"slices"
	"strings"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/summary"
)

// references returns the reference lines beside the measurement: published figures of these cells
// and the prediction of Mathis' equation.
func references(outcome *run.Outcome, rows, group []summary.Row, request scenario.FigureRequest, x axis, rest record.Labels) []record.Curve {
	curves := publishedCurves(outcome.Scenario, rows, request, x, rest)
	if request.Metric != scenario.Goodput {
		return curves
	}
	byName := map[string]*record.Curve{}
	var names []string
	for _, row := range group {
		predicted, found := predictionOf(rows, row)
		if !found || len(outcome.Cells) == 0 {
			continue
		}
		name := "Mathis, " + seriesName(row, request)
		if byName[name] == nil {
			byName[name] = &record.Curve{Name: name, Reference: true}
			names = append(names, name)
		}
		c := byName[name]
		c.X, c.Y = append(c.X, x.at[row.Labels[request.X]]), append(c.Y, predicted)
	}
	for _, name := range names {
		sortCurve(byName[name])
		curves = append(curves, *byName[name])
	}
	return curves
}

// predictionOf returns the mean Mathis prediction of the flow that belongs to a goodput. An
// aggregate has one only if it consists of a single flow.
func predictionOf(rows []summary.Row, row summary.Row) (float64, bool) {
	var found []summary.Row
	for _, other := range rows {
		if other.Metric == scenario.PredictedMathis && other.Estimate.N > 0 && maps.Equal(other.Labels, row.Labels) &&
			(row.Subject == scenario.Aggregate || other.Subject == row.Subject) {
			found = append(found, other)
		}
	}
	if len(found) != 1 {
		return 0, false
	}
	return found[0].Estimate.Mean, true
}

// publishedCurves joins published figures that differ along X only.
func publishedCurves(s *scenario.Scenario, rows []summary.Row, request scenario.FigureRequest, x axis, rest record.Labels) []record.Curve {
	var curves []record.Curve
	for _, p := range s.Published {
		value, placed := p.Where[request.X]
		at, known := x.at[value]
		if p.Metric != request.Metric || subject(p.Subject) != subject(request.Subject) || !placed || !known || !compatible(p.Where, rest) {
			continue
		}
		y, ok := absolute(p, rows, rest)
		if !ok {
			continue
		}
		name := p.Source
		if series := p.Where[request.Series]; series != "" {
			name = series + ", " + p.Source
		}
		i := slices.IndexFunc(curves, func(c record.Curve) bool { return c.Name == name })
		if i < 0 {
			i = len(curves)
			curves = append(curves, record.Curve{Name: name, Reference: true})
		}
		curves[i].X, curves[i].Y = append(curves[i].X, at), append(curves[i].Y, y)
	}
	for i := range curves {
		sortCurve(&curves[i])
	}
	return curves
}

// compatible reports whether a figure published for where may be drawn among cells with these
// labels.
func compatible(where, labels record.Labels) bool {
	for name, value := range labels {
		if own, given := where[name]; given && own != value {
			return false
		}
	}
	return true
}

// absolute converts a published figure to the metric's unit. A published ratio is multiplied by the
// measured base.
func absolute(p scenario.Published, rows []summary.Row, rest record.Labels) (float64, bool) {
	if p.RelativeTo == nil {
		return p.Value, true
	}
	labels := maps.Clone(p.Where)
	maps.Copy(labels, rest)
	maps.Copy(labels, p.RelativeTo)
	base, found := summary.Find(rows, labels, subject(p.Subject), p.Metric)
	return p.Value * base.Estimate.Mean, found && base.Estimate.N > 0
}

// fileName formats labels as part of a file name: "path-symmetric-rtt-0.4ms".
func fileName(labels record.Labels) string {
	text := strings.NewReplacer("=", "-", " ", "-").Replace(summary.Text(labels))
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return -1
	}, text)
}
