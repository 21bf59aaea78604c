// SPDX-License-Identifier: Apache-2.0

// Package figures draws the generic figures of a bundle: time series of its points and cumulative
// distributions of its histograms. The creator of the bundle adds specific figures.
package figures

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/record"
	"weir/record/hist"
	"weir/record/summary"
)

const (
	// curvesPerFigure is the maximum number of curves of a readable figure.
	curvesPerFigure = 7
	// spread above which a distribution is drawn over a log axis.
	spread = 20
)

// All returns the bundle's own figures, then time lines and distributions unless it has figures of
// these kinds itself. It makes at most limit time lines and limit distributions; omitted is the
// number of further ones. Names are valid file names, and unique.
func All(b *record.Bundle, limit int) (all []record.Figure, omitted int) {
	all = slices.Clone(b.Figures)
	has := func(kind record.FigureKind) bool {
		return slices.ContainsFunc(b.Figures, func(f record.Figure) bool { return f.Kind == kind })
	}
	add := func(made []record.Figure) {
		kept := spaced(made, limit)
		omitted += len(made) - len(kept)
		all = append(all, kept...)
	}
	if !has(record.TimeLine) {
		add(TimeLines(valid(b.Points, b.Samples)))
	}
	if !has(record.Steps) {
		add(Distributions(b.Distributions))
	}
	rename(all)
	return all, omitted
}

// rename makes every name a unique file name.
func rename(list []record.Figure) {
	taken := map[string]bool{}
	for i := range list {
		base := cmp.Or(fileName(list[i].Name), "figure")
		name := base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[name] = true
		list[i].Name = name
	}
}

// spaced picks at most limit items, evenly spaced.
func spaced(list []record.Figure, limit int) []record.Figure {
	if len(list) <= limit {
		return list
	}
	kept := make([]record.Figure, 0, limit)
	for i := range limit {
		kept = append(kept, list[i*len(list)/limit])
	}
	return kept
}

// valid omits the points of runs with only rejected samples.
func valid(points []record.Point, samples []record.Sample) []record.Point {
	type run struct {
		labels              summary.Key
		repetition, attempt int
	}
	accepted := map[run]bool{}
	rejections := false
	for _, s := range samples {
		r := run{summary.KeyOf(s.Labels, "", "", ""), s.Repetition, s.Attempt}
		accepted[r] = accepted[r] || s.Valid
		rejections = rejections || !s.Valid
	}
	if !rejections {
		return points
	}
	var kept []record.Point
	var keys keyer
	for _, p := range points {
		ok, known := accepted[run{keys.of(record.Point{Labels: p.Labels}), p.Repetition, p.Attempt}]
		if ok || !known {
			kept = append(kept, p)
		}
	}
	return kept
}

// TimeLines returns a figure per metric and labels, of the first repetition with points, with a
// curve per subject. It takes the last attempt of that repetition, because the earlier ones were
// rejected.
func TimeLines(points []record.Point) []record.Figure {
	type run struct{ repetition, attempt int }
	chosen := map[summary.Key]run{}
	var keys keyer
	for _, p := range points {
		key := keys.of(p)
		have, seen := chosen[key]
		if !seen || p.Repetition < have.repetition || (p.Repetition == have.repetition && p.Attempt > have.attempt) {
			chosen[key] = run{p.Repetition, p.Attempt}
		}
	}
	lines := map[summary.Key]*timeLine{}
	for _, p := range points {
		key := keys.of(p)
		if chosen[key] != (run{p.Repetition, p.Attempt}) {
			continue
		}
		if lines[key] == nil {
			lines[key] = &timeLine{first: p, subjects: map[string]*record.Curve{}}
		}
		lines[key].add(p)
	}
	list := slices.SortedFunc(maps.Values(lines), func(a, b *timeLine) int {
		return cmp.Or(cmp.Compare(a.first.Metric, b.first.Metric), summary.CompareLabels(a.first.Labels, b.first.Labels),
			cmp.Compare(a.first.Unit, b.first.Unit))
	})
	figures := make([]record.Figure, len(list))
	for i, line := range list {
		figures[i] = line.figure()
	}
	return figures
}

// keyer makes the key of a point's figure. It caches the last key, because consecutive points
// mostly belong to one series, which may have millions.
type keyer struct {
	last record.Point
	key  summary.Key
}

func (k *keyer) of(p record.Point) summary.Key {
	if k.key == "" || p.Metric != k.last.Metric || p.Unit != k.last.Unit || !maps.Equal(p.Labels, k.last.Labels) {
		k.last, k.key = p, summary.KeyOf(p.Labels, "", p.Metric, p.Unit)
	}
	return k.key
}

// timeLine collects the curves of one figure.
type timeLine struct {
	first    record.Point
	subjects map[string]*record.Curve
}

func (t *timeLine) add(p record.Point) {
	curve := t.subjects[p.Subject]
	if curve == nil {
		curve = &record.Curve{Name: p.Subject}
		t.subjects[p.Subject] = curve
	}
	curve.X = append(curve.X, p.At.Seconds())
	curve.Y = append(curve.Y, p.Value)
}

func (t *timeLine) figure() record.Figure {
	p := t.first
	f := record.Figure{Name: fileName("time", p.Metric, summary.Text(p.Labels)), Title: title(p.Metric) + " over time",
		Subtitle: strings.TrimSpace(fmt.Sprintf("%s, repetition %d", summary.Text(p.Labels), p.Repetition)), Kind: record.TimeLine,
		XLabel: "time", YLabel: title(p.Metric), XUnit: record.Seconds, YUnit: p.Unit}
	f.Subtitle = strings.TrimPrefix(f.Subtitle, ", ")
	for _, name := range slices.SortedFunc(maps.Keys(t.subjects), summary.Compare) {
		if len(f.Curves) == curvesPerFigure {
			f.Subtitle += fmt.Sprintf("; the first %d of %d", curvesPerFigure, len(t.subjects))
			break
		}
		f.Curves = append(f.Curves, *t.subjects[name])
	}
	return f
}

// Distributions returns figures per subject and metric with a curve per set of labels, of all valid
// repetitions together.
func Distributions(distributions []record.Distribution) []record.Figure {
	merged := map[summary.Key]*record.Distribution{}
	for _, d := range distributions {
		if !d.Valid || d.Histogram.Count() == 0 {
			continue
		}
		key := summary.KeyOf(d.Labels, d.Subject, d.Metric, d.Unit)
		if merged[key] == nil {
			copied := d
			copied.Histogram = &hist.Histogram{}
			merged[key] = &copied
		}
		merged[key].Histogram.Merge(d.Histogram)
	}
	list := slices.SortedFunc(maps.Values(merged), func(a, b *record.Distribution) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), summary.Compare(a.Subject, b.Subject), cmp.Compare(a.Unit, b.Unit),
			summary.CompareLabels(a.Labels, b.Labels))
	})
	var figures []record.Figure
	for len(list) > 0 {
		n := 1
		for n < len(list) && n < curvesPerFigure && together(list[0], list[n]) {
			n++
		}
		figures = append(figures, cdf(list[:n]))
		list = list[n:]
	}
	return figures
}

func together(a, b *record.Distribution) bool {
	return a.Metric == b.Metric && a.Subject == b.Subject && a.Unit == b.Unit
}

// cdf draws distributions of one quantity with different labels.
func cdf(group []*record.Distribution) record.Figure {
	first := group[0]
	common, lowest, highest := maps.Clone(first.Labels), first.Histogram.Min(), first.Histogram.Max()
	for _, d := range group {
		maps.DeleteFunc(common, func(key, value string) bool { return d.Labels[key] != value })
		lowest, highest = min(lowest, d.Histogram.Min()), max(highest, d.Histogram.Max())
	}
	f := record.Figure{Name: fileName("cdf", first.Metric, first.Subject, summary.Text(first.Labels)), Title: title(first.Metric) + " of " + first.Subject,
		Subtitle: strings.TrimPrefix(summary.Text(common)+", all valid repetitions", ", "), Kind: record.Steps,
		XLabel: title(first.Metric), YLabel: "share at or below", XUnit: first.Unit, YUnit: record.Share,
		LogX: lowest > 0 && highest/lowest >= spread}
	for _, d := range group {
		own := maps.Clone(d.Labels)
		maps.DeleteFunc(own, func(key, _ string) bool { _, shared := common[key]; return shared })
		curve := record.Curve{Name: summary.Text(own), X: []float64{float64(d.Histogram.Min()) / 1e9}, Y: []float64{0}}
		if curve.Name == "" {
			curve.Name = first.Subject
		}
		x, y := d.Histogram.Curve()
		curve.X, curve.Y = append(curve.X, x...), append(curve.Y, y...)
		f.Curves = append(f.Curves, curve)
	}
	return f
}

// title makes a metric's name readable: "owd_p99" is "owd p99".
func title(metric string) string { return strings.ReplaceAll(metric, "_", " ") }

// fileName joins parts to a name that is valid on every file system.
func fileName(parts ...string) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, strings.Join(parts, "-"))
	return strings.Trim(text[:min(len(text), 80)], "-.")
}
