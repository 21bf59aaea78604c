// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weir/record"
)

// Sizes are chosen for a figure shown 400 pixels wide: its letters then have 9 pixels or more.
const (
	margin     = 12 * vg.Length(1)
	plotHeight = 214 * vg.Length(1) // axes and curves, with a line of labels below them
	titleSize  = 13 * vg.Length(1)
	labelSize  = 10.5 * vg.Length(1)
	tickSize   = 10 * vg.Length(1)
)

// render draws the whole figure: heading, axes and curves, names of the curves beside or below.
func (v view) render(c draw.Canvas) {
	c.FillPolygon(paper, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	c = draw.Crop(c, margin, -margin, margin, -margin)
	for _, b := range v.headings() {
		c = b.draw(c)
	}
	if v.empty {
		note := letters(labelSize, soft, false)
		note.XAlign = draw.XCenter
		c.FillText(note, c.Center(), "There is no valid measurement to draw.")
		return
	}
	v.draw(c)
}

// height returns the height of the figure: long texts are wrapped, not cut.
func (v view) height() vg.Length {
	high := 2*margin + plotHeight
	for _, b := range v.headings() {
		high += b.height()
	}
	if !v.empty {
		line := leading(tickSize)
		high += v.names().below() + max(v.categories().height()-line, 0)
		high += v.bottomLabel().height()
	}
	return high
}

// view is a figure prepared for drawing.
type view struct {
	record.Figure
	x, y   axis
	styles []style
	empty  bool
}

// newView finds the ranges of both axes.
func newView(f record.Figure) view {
	v := view{Figure: f, styles: styles(f.Curves)}
	if f.Kind == record.BarChart {
		v.LogX = false
	}
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, c := range f.Curves {
		for i := range c.X {
			if !v.visible(c, i) {
				continue
			}
			lowX, highX = min(lowX, c.X[i]), max(highX, c.X[i])
			for _, y := range v.heights(c, i) {
				lowY, highY = min(lowY, y), max(highY, y)
			}
		}
	}
	if lowX > highX {
		v.empty = true
		return v
	}
	v.x = newAxis(lowX, highX, f.XUnit, v.LogX)
	v.x.percent()
	if len(f.XNames) > 0 {
		v.x.names, v.x.low, v.x.high = f.XNames, -0.5, float64(len(f.XNames))-0.5
	}
	v.y = newAxis(v.bottom(lowY), v.top(highY), f.YUnit, f.LogY)
	return v
}

// visible reports whether point i can be drawn on the axes.
func (v view) visible(c record.Curve, i int) bool {
	x, y := c.X[i], c.Y[i]
	return finite(x) && finite(y) && (!v.LogX || x > 0) && (!v.LogY || y > 0)
}

// heights returns the values of point i that the y axis should cover. A huge interval may hide a
// flat curve, so it counts up to three times the value.
func (v view) heights(c record.Curve, i int) []float64 {
	heights := []float64{c.Y[i]}
	if c.High != nil && finite(c.High[i]) && finite(c.Low[i]) {
		heights = append(heights, min(c.High[i], c.Y[i]+3*math.Abs(c.Y[i])))
		if low := max(c.Low[i], c.Y[i]-3*math.Abs(c.Y[i])); !v.LogY && c.Y[i] < 0 {
			heights = append(heights, low)
		} else if v.LogY && c.Low[i] > 0 {
			heights = append(heights, max(c.Low[i], c.Y[i]/10))
		}
	}
	return heights
}

// bottom starts a linear axis at zero, so that heights can be compared, and a log axis a little
// below the lowest value.
func (v view) bottom(low float64) float64 {
	switch {
	case v.LogY:
		return low / 1.3
	case low > 0:
		return 0
	}
	return low
}

func (v view) top(high float64) float64 {
	switch {
	case v.LogY:
		return high * 1.3
	case v.Kind == record.Steps && high <= 1:
		return 1
	case high < 0:
		return 0
	}
	return high * 1.04
}

// across returns the length of the x axis, or a little less.
func (v view) across() vg.Length {
	sty := letters(tickSize, soft, false)
	labels := vg.Length(0)
	for _, tick := range v.y.ticks(v.y.low, v.y.high) {
		labels = max(labels, sty.Width(tick.Label))
	}
	return width - 2*margin - v.names().beside() - labels - 12
}

func (v view) categories() categories { return v.fitCategories(v.across()) }

// bottomLabel is the x axis's label; the library's own has too little space between its lines.
func (v view) bottomLabel() block {
	b := block{style: letters(labelSize, ink, false), gap: 5}
	b.style.XAlign = draw.XCenter
	b.lines = wrap(v.x.label(v.XLabel), b.style, v.across(), 3)
	return b
}

// draw draws axes, curves and their names.
func (v view) draw(c draw.Canvas) {
	names := v.names()
	label := v.bottomLabel()
	area := draw.Crop(c, 0, -names.beside(), names.below()+label.height(), 0)
	p := plot.New()
	p.BackgroundColor = nil
	v.setAxis(&p.X, v.x, v.LogX, len(v.x.names) == 0)
	v.setAxis(&p.Y, v.y, v.LogY, true)
	p.Y.LineStyle.Width, p.Y.Tick.LineStyle.Width, p.Y.Tick.Length = 0, 0, 0
	p.X.Padding, p.Y.Padding = 0, 6
	p.Add(gridLines{v}, curves{v})
	if len(v.x.names) > 0 {
		v.categories().set(&p.X, v.x)
	} else {
		p.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
			ticks := v.x.ticks(low, high)
			fitTicks(ticks, v.across(), p.X.Norm)
			return ticks
		})
	}
	p.Draw(area)
	data := p.DataCanvas(area)
	label.drawAt(c, vg.Point{X: data.Center().X, Y: area.Min.Y - label.gap})
	names.draw(c, p, area)
}

// setAxis formats an axis of the plotting library.
func (v view) setAxis(a *plot.Axis, from axis, log, ticks bool) {
	a.Min, a.Max = from.low, from.high
	a.Tick.Marker = plot.TickerFunc(from.ticks)
	if log {
		a.Scale = plot.LogScale{}
	}
	align := a.Tick.Label
	a.Tick.Label = letters(tickSize, soft, false)
	a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
	a.LineStyle.Color, a.LineStyle.Width = rule, 0.8
	a.Tick.LineStyle.Color, a.Tick.LineStyle.Width = rule, 0.8
	a.Tick.Length = 5
	if !ticks {
		a.Tick.LineStyle.Width = 0
	}
}
