// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"slices"
	"strings"

	"weir/lab/scenario"
	"weir/record"
	"weir/record/hist"
	"weir/record/summary"
)

var timelineTitles = map[string]string{
	scenario.SeriesRate:  "Goodput over time",
	scenario.SeriesCwnd:  "Congestion window over time",
	scenario.SeriesSRTT:  "Smoothed round-trip time over time",
	scenario.SeriesQueue: "Queues of the links over time",
}

const (
	// maxTimelines bounds the cells with drawn time series. The bundle holds the series of all
	// cells.
	maxTimelines = 6
	maxCDFs      = 10
)

// timelines draws a metric of the flows over time: one figure for each of a few cells, evenly over
// the sweep. With a series parameter, a figure shows a group of cells that differ in that parameter
// only.
func timelines(b *record.Bundle, request scenario.FigureRequest) []record.Figure {
	var cells []record.Labels
	for _, point := range b.Points {
		if point.Metric == request.Metric && (len(cells) == 0 || summary.CompareLabels(cells[len(cells)-1], point.Labels) != 0) {
			cells = append(cells, point.Labels)
		}
	}
	groups := groupsOf(cells, request.Series)
	rests := make([]record.Labels, len(groups))
	for i, group := range groups {
		rests[i] = remove(group[0], seriesOf(request)...)
	}
	known, _, _ := scenario.FindMetric(request.Metric)
	var all []record.Figure
	for _, i := range evenly(len(groups), maxTimelines) {
		figure := record.Figure{
			Name: request.Name, Title: request.Title, Kind: record.TimeLine, XLabel: "time", XUnit: record.Seconds, YLabel: request.Metric, YUnit: known.Unit,
			LogY: request.LogY, Subtitle: "the valid run with the median goodput",
		}
		if len(rests[i]) > 0 {
			figure.Title += ": " + summary.Text(rests[i])
		}
		if differing := distinct(rests[i], rests); len(differing) > 0 {
			figure.Name += "-" + fileName(differing)
		}
		for _, cell := range groups[i] {
			figure.Curves = append(figure.Curves, timeCurves(b.Points, cell, request)...)
		}
		if len(figure.Curves) > 0 {
			all = append(all, figure)
		}
	}
	return all
}

// seriesOf returns the parameter that becomes one curve per value, if there is one.
func seriesOf(request scenario.FigureRequest) []string {
	if request.Series == "" || request.Series == bySubject {
		return nil
	}
	return []string{request.Series}
}

// groupsOf groups cells that differ in the series parameter only; without one each cell is a group.
func groupsOf(cells []record.Labels, series string) (groups [][]record.Labels) {
	for _, cell := range cells {
		i := -1
		if _, varied := cell[series]; varied {
			i = slices.IndexFunc(groups, func(g []record.Labels) bool { return maps.Equal(remove(g[0], series), remove(cell, series)) })
		}
		if i < 0 {
			groups = append(groups, []record.Labels{cell})
			continue
		}
		groups[i] = append(groups[i], cell)
	}
	return groups
}

// timeCurves returns the flows of a cell over time. If several cells share a figure, each curve's
// name has the cell's value of the series, and the flow's name if there are several flows.
func timeCurves(points []record.Point, labels record.Labels, request scenario.FigureRequest) []record.Curve {
	var curves []record.Curve
	for _, point := range points {
		if point.Metric != request.Metric || summary.CompareLabels(point.Labels, labels) != 0 ||
			request.Subject != "" && request.Subject != scenario.Aggregate && request.Subject != point.Subject {
			continue
		}
		i := slices.IndexFunc(curves, func(c record.Curve) bool { return c.Name == point.Subject })
		if i < 0 {
			i = len(curves)
			curves = append(curves, record.Curve{Name: point.Subject})
		}
		curves[i].X, curves[i].Y = append(curves[i].X, point.At.Seconds()), append(curves[i].Y, point.Value)
	}
	value, together := labels[request.Series]
	for i := range curves {
		switch {
		case together && len(curves) > 1:
			curves[i].Name = value + ", " + curves[i].Name
		case together:
			curves[i].Name = value
		}
	}
	return curves
}

// evenly chooses at most limit of n places, evenly, including the first and the last.
func evenly(n, limit int) []int {
	var places []int
	for i := range min(n, limit) {
		place := i
		if n > limit {
			place = i * (n - 1) / (limit - 1)
		}
		places = append(places, place)
	}
	return places
}

var distributionTitles = map[string]string{
	distributionSRTT:     "Round-trip times seen by the sender",
	distributionExchange: "Completion times of exchanges",
	distributionTransfer: "Completion times of transfers",
	distributionOWD:      "One-way delay",
}

// distributionFigures draws the cumulative distribution of each kind of delay, with all valid
// repetitions of a cell merged.
func distributionFigures(b *record.Bundle) []record.Figure {
	var all []record.Figure
	for _, metric := range []string{distributionSRTT, distributionExchange, distributionTransfer, distributionOWD} {
		figure := record.Figure{
			Name: "cdf-" + metric, Title: distributionTitles[metric], Subtitle: "cumulative share of the samples of all valid repetitions",
			Kind: record.Steps, XLabel: "time", XUnit: record.Seconds, YLabel: "share", YUnit: record.Share, LogX: true,
		}
		merged, names := mergedDistributions(b, metric)
		for _, i := range evenly(len(names), maxCDFs) {
			figure.Curves = append(figure.Curves, cdf(names[i], merged[names[i]]))
		}
		if len(figure.Curves) > 0 {
			all = append(all, figure)
		}
	}
	return all
}

func mergedDistributions(b *record.Bundle, metric string) (map[string]*hist.Histogram, []string) {
	var own []record.Distribution
	var labels []record.Labels
	for _, d := range b.Distributions {
		if d.Metric == metric && d.Valid {
			own = append(own, d)
			all := remove(d.Labels)
			all[bySubject] = d.Subject
			labels = append(labels, all)
		}
	}
	merged := map[string]*hist.Histogram{}
	var names []string
	for i, d := range own {
		name := shortName(labels[i], labels)
		if merged[name] == nil {
			merged[name] = &hist.Histogram{}
			names = append(names, name)
		}
		merged[name].Merge(d.Histogram)
	}
	slices.SortFunc(names, summary.Compare)
	return merged, names
}

// shortName identifies labels among all by the values that differ: "bbr, 1%".
func shortName(labels record.Labels, all []record.Labels) string {
	differing := distinct(labels, all)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(differing)) {
		parts = append(parts, differing[name])
	}
	if len(parts) == 0 {
		return labels[bySubject]
	}
	return strings.Join(parts, ", ")
}

// distinct returns the labels that differ among all.
func distinct(labels record.Labels, all []record.Labels) record.Labels {
	differing := record.Labels{}
	for name, value := range labels {
		if slices.ContainsFunc(all, func(other record.Labels) bool { return other[name] != value }) {
			differing[name] = value
		}
	}
	return differing
}

// cdf converts a histogram to the share of values at or below each bucket's upper end.
func cdf(name string, h *hist.Histogram) record.Curve {
	curve := record.Curve{Name: name}
	curve.X, curve.Y = h.Curve()
	return curve
}
