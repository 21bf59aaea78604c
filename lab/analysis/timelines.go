// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"maps"
	"slices"
	"strings"

	"weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
	"weir/record/hist"
	"weir/record/summary"
)

var timelineTitles = map[string]string{
	scenario.SeriesRate: "Goodput over time",
	scenario.SeriesCwnd: "Congestion window over time",
	scenario.SeriesSRTT: "Smoothed round-trip time over time",
}

const (
	// mostTimelines is how many cells of a scenario have time series drawn; all have them in the
	// bundle's series.
	mostTimelines = 6
	mostCDFs      = 10
)

// timelines draws a metric of the flows over time, a figure for each of a few cells spread over the
// sweep.
func timelines(outcome *run.Outcome, b *record.Bundle, metric, of, name, title string) []record.Figure {
	var cells []record.Labels
	for _, point := range b.Points {
		if point.Metric == metric && (len(cells) == 0 || summary.CompareLabels(cells[len(cells)-1], point.Labels) != 0) {
			cells = append(cells, point.Labels)
		}
	}
	known, _, _ := scenario.FindMetric(metric)
	var all []record.Figure
	for _, i := range spread(len(cells), mostTimelines) {
		figure := record.Figure{
			Name: name, Title: title, Kind: record.TimeLine, XLabel: "time", XUnit: record.Seconds, YLabel: metric, YUnit: known.Unit,
			Subtitle: "the valid run with the median goodput",
		}
		if len(cells[i]) > 0 {
			figure.Title += ": " + summary.Text(cells[i])
		}
		if differing := distinct(cells[i], cells); len(differing) > 0 {
			figure.Name += "-" + fileName(differing)
		}
		figure.Curves = timeCurves(b.Points, cells[i], metric, of)
		if len(figure.Curves) > 0 {
			all = append(all, figure)
		}
	}
	return all
}

func timeCurves(points []record.Point, labels record.Labels, metric, of string) []record.Curve {
	var curves []record.Curve
	for _, point := range points {
		if point.Metric != metric || summary.CompareLabels(point.Labels, labels) != 0 || of != "" && of != scenario.Aggregate && of != point.Subject {
			continue
		}
		i := slices.IndexFunc(curves, func(c record.Curve) bool { return c.Name == point.Subject })
		if i < 0 {
			i = len(curves)
			curves = append(curves, record.Curve{Name: point.Subject})
		}
		curves[i].X, curves[i].Y = append(curves[i].X, point.At.Seconds()), append(curves[i].Y, point.Value)
	}
	return curves
}

// spread chooses at most most of n places, the first and the last among them.
func spread(n, most int) []int {
	var places []int
	for i := range min(n, most) {
		place := i
		if n > most {
			place = i * (n - 1) / (most - 1)
		}
		places = append(places, place)
	}
	return places
}

var distributionTitles = map[string]string{
	distributionSRTT:     "Round-trip times seen by the sender",
	distributionExchange: "Completion times of exchanges",
	distributionOWD:      "One-way delay",
}

// distributionFigures draws the cumulative distribution of each kind of delay, all valid
// repetitions of a cell merged.
func distributionFigures(b *record.Bundle) []record.Figure {
	var all []record.Figure
	for _, metric := range []string{distributionSRTT, distributionExchange, distributionOWD} {
		figure := record.Figure{
			Name: "cdf-" + metric, Title: distributionTitles[metric], Subtitle: "cumulative share of the samples of all valid repetitions",
			Kind: record.Steps, XLabel: "time", XUnit: record.Seconds, YLabel: "share", YUnit: record.Share, LogX: true,
		}
		merged, names := mergedDistributions(b, metric)
		for _, i := range spread(len(names), mostCDFs) {
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

// shortName tells labels apart from others by the values of those that differ: "bbr, 1%".
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

// distinct are those labels that differ among all.
func distinct(labels record.Labels, all []record.Labels) record.Labels {
	differing := record.Labels{}
	for name, value := range labels {
		if slices.ContainsFunc(all, func(other record.Labels) bool { return other[name] != value }) {
			differing[name] = value
		}
	}
	return differing
}

// cdf turns a histogram into the share of values at or below each bucket's upper end.
func cdf(name string, h *hist.Histogram) record.Curve {
	curve := record.Curve{Name: name}
	for _, step := range h.CDF() {
		curve.X, curve.Y = append(curve.X, seconds(step.Value)), append(curve.Y, step.Share)
	}
	return curve
}
