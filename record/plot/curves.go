// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weir/record"
)

// Curves with more points than these have no markers. References are often a few published points.
const (
	pointsMarked     = 60
	referencesMarked = 12
)

// gridLines draws a faint line at every labelled y tick.
type gridLines struct{ view }

// Plot implements plot.Plotter.
func (g gridLines) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if tick.Label == "" || !c.ContainsY(y(tick.Value)) {
			continue
		}
		line := draw.LineStyle{Color: grid, Width: 0.8}
		c.StrokeLine2(line, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
	}
}

// curves draws all curves of a view: references below measured lines, and above bars, which would
// hide them.
type curves struct{ view }

// Plot implements plot.Plotter.
func (d curves) Plot(c draw.Canvas, p *plot.Plot) {
	hidden := d.Kind == record.BarChart
	for _, references := range []bool{!hidden, hidden} {
		for i, curve := range d.Curves {
			if curve.Reference != references {
				continue
			}
			if d.Kind == record.BarChart && !curve.Reference {
				d.bars(c, p, i)
			} else {
				d.line(c, p, curve, d.styles[i])
			}
		}
	}
}

// line draws one curve: interval bars, then segments between gaps, then markers.
func (d curves) line(c draw.Canvas, p *plot.Plot, curve record.Curve, s style) {
	x, y := p.Transforms(&c)
	marked := d.Kind == record.Lines && len(curve.X) <= pointsMarked && (!curve.Reference || len(curve.X) <= referencesMarked)
	var markers []vg.Point
	for _, segment := range d.segments(curve) {
		points := make([]vg.Point, 0, len(segment))
		for _, i := range segment {
			at := vg.Point{X: x(curve.X[i]), Y: y(curve.Y[i])}
			if d.Kind == record.Steps && len(points) > 0 {
				points = append(points, vg.Point{X: at.X, Y: points[len(points)-1].Y})
			}
			points = append(points, at)
			markers = append(markers, at)
			if curve.High != nil {
				d.whisker(c, y, at, curve.Low[i], curve.High[i], s)
			}
		}
		if d.Kind == record.TimeLine || d.Kind == record.Steps {
			points = thin(points, 1000)
		}
		c.StrokeLines(draw.LineStyle{Color: s.color, Width: 1.8, Dashes: s.dash}, c.ClipLinesXY(points)...)
	}
	if marked || single(d.segments(curve)) {
		for _, at := range markers {
			c.DrawGlyph(s.glyph(curve.Reference), at)
		}
	}
}

// single reports whether a curve has no line segment.
func single(segments [][]int) bool {
	for _, segment := range segments {
		if len(segment) > 1 {
			return false
		}
	}
	return true
}

// whisker draws an interval, cut off at the edges of the plot.
func (d curves) whisker(c draw.Canvas, y func(float64) vg.Length, at vg.Point, low, high float64, s style) {
	if !finite(low) || !finite(high) || !c.ContainsX(at.X) {
		return
	}
	bottom, cut := c.Min.Y, d.LogY && low <= 0
	if !cut {
		bottom = max(y(low), c.Min.Y)
	}
	top := min(y(high), c.Max.Y)
	line := draw.LineStyle{Color: faded(s.color, 0.75), Width: 1.2}
	c.StrokeLine2(line, at.X, bottom, at.X, top)
	if bottom > c.Min.Y {
		c.StrokeLine2(line, at.X-3, bottom, at.X+3, bottom)
	}
	if top < c.Max.Y {
		c.StrokeLine2(line, at.X-3, top, at.X+3, top)
	}
}

// segments returns the indices of visible points, split at gaps. Points omitted by a log axis do
// not split.
func (d curves) segments(c record.Curve) [][]int {
	var all [][]int
	var current []int
	for i := range c.X {
		switch {
		case d.visible(c, i):
			current = append(current, i)
		case !finite(c.Y[i]) && len(current) > 0:
			all = append(all, current)
			current = nil
		}
	}
	if len(current) > 0 {
		all = append(all, current)
	}
	return all
}

// thin keeps the visible points of a long line: the first, lowest, highest and last of every
// stretch.
func thin(points []vg.Point, limit int) []vg.Point {
	if len(points) <= limit {
		return points
	}
	stretch := (len(points)*4 + limit - 1) / limit
	kept := make([]vg.Point, 0, limit+4)
	for start := 0; start < len(points); start += stretch {
		end := min(start+stretch, len(points))
		low, high := start, start
		for i := start; i < end; i++ {
			if points[i].Y < points[low].Y {
				low = i
			}
			if points[i].Y > points[high].Y {
				high = i
			}
		}
		last := -1
		for _, i := range []int{start, min(low, high), max(low, high), end - 1} {
			if i > last {
				kept = append(kept, points[i])
				last = i
			}
		}
	}
	return kept
}

// bars draws one bar per category and measured curve.
func (d curves) bars(c draw.Canvas, p *plot.Plot, index int) {
	x, y := p.Transforms(&c)
	slot, slots := 0, 0
	for i, curve := range d.Curves {
		if !curve.Reference {
			if i == index {
				slot = slots
			}
			slots++
		}
	}
	room := x(1) - x(0)
	if len(d.x.names) == 0 {
		room = (c.Max.X - c.Min.X) / vg.Length(max(len(d.Curves[index].X), 1))
	}
	width := min(room*0.78/vg.Length(slots), 46)
	base := c.Min.Y
	if !d.LogY {
		base = y(math.Max(p.Y.Min, 0))
	}
	curve, s := d.Curves[index], d.styles[index]
	for i := range curve.X {
		if !d.visible(curve, i) {
			continue
		}
		left := x(curve.X[i]) + width*(vg.Length(slot)-vg.Length(slots)/2)
		top := y(curve.Y[i])
		gap := min(width*0.06, 1.5)
		c.FillPolygon(faded(s.color, 0.88), c.ClipPolygonXY([]vg.Point{{X: left + gap, Y: base}, {X: left + width - gap, Y: base},
			{X: left + width - gap, Y: top}, {X: left + gap, Y: top}}))
		if curve.High != nil {
			whisker := style{color: ink}
			d.whisker(c, y, vg.Point{X: left + width/2, Y: top}, curve.Low[i], curve.High[i], whisker)
		}
	}
}
