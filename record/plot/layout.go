// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weir/record"
)

const margin = 14 * vg.Length(1)

// render draws the whole figure: heading, axes and curves, names of the curves at the right.
func render(c draw.Canvas, f record.Figure) error {
	if err := check(f); err != nil {
		return err
	}
	c.FillPolygon(paper, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	c = draw.Crop(c, margin, -margin, margin, -margin)
	view := newView(f)
	c = view.heading(c)
	if view.empty {
		note := letters(12, soft, false)
		note.XAlign = draw.XCenter
		c.FillText(note, c.Center(), "There is no valid measurement to draw.")
		return nil
	}
	view.draw(c)
	return nil
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

// visible says whether point i can be drawn on the axes.
func (v view) visible(c record.Curve, i int) bool {
	x, y := c.X[i], c.Y[i]
	return finite(x) && finite(y) && (!v.LogX || x > 0) && (!v.LogY || y > 0)
}

// heights are the values of point i that the y axis should cover. An interval may hide a quiet
// curve by being huge, so it counts up to three times the value.
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

// heading draws title, subtitle and the y axis's label, and returns what is left below.
func (v view) heading(c draw.Canvas) draw.Canvas {
	wide := c.Max.X - c.Min.X
	line := func(size vg.Length, clr style, bold bool, text string, gap vg.Length) {
		if text == "" {
			return
		}
		sty := letters(size, clr.color, bold)
		c.Max.Y -= size
		c.FillText(sty, vg.Point{X: c.Min.X, Y: c.Max.Y}, clean(text, sty, wide))
		c.Max.Y -= gap
	}
	line(15, style{color: ink}, true, v.Title, 7)
	line(11, style{color: soft}, false, v.Subtitle, 7)
	c.Max.Y -= 6
	if !v.empty {
		line(10.5, style{color: ink}, false, v.y.label(v.YLabel), 9)
	}
	return c
}

// draw draws axes, curves and their names.
func (v view) draw(c draw.Canvas) {
	names := v.names()
	area := draw.Crop(c, 0, -names.width(), 0, 0)
	p := plot.New()
	p.BackgroundColor = nil
	v.setAxis(&p.X, v.x, v.LogX, len(v.x.names) == 0)
	v.setAxis(&p.Y, v.y, v.LogY, true)
	p.X.Label.Text = clean(v.x.label(v.XLabel), p.X.Label.TextStyle, (area.Max.X-area.Min.X)*0.8)
	p.Y.LineStyle.Width, p.Y.Tick.LineStyle.Width, p.Y.Tick.Length = 0, 0, 0
	p.X.Padding, p.Y.Padding = 0, 6
	p.Add(gridLines{v}, curves{v})
	if len(v.x.names) > 0 {
		v.fitNames(p, area)
	}
	p.Draw(area)
	names.draw(c, p, area)
}

// setAxis dresses an axis of the plotting library.
func (v view) setAxis(a *plot.Axis, from axis, log, ticks bool) {
	a.Min, a.Max = from.low, from.high
	a.Tick.Marker = plot.TickerFunc(from.ticks)
	if log {
		a.Scale = plot.LogScale{}
	}
	align := a.Tick.Label
	a.Tick.Label = letters(10, soft, false)
	a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
	a.Label.TextStyle = letters(10.5, ink, false)
	a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign = draw.XCenter, draw.YBottom
	a.Label.Padding = 5
	a.LineStyle.Color, a.LineStyle.Width = rule, 0.8
	a.Tick.LineStyle.Color, a.Tick.LineStyle.Width = rule, 0.8
	a.Tick.Length = 5
	if !ticks {
		a.Tick.LineStyle.Width = 0
	}
}

// fitNames shortens category names to the room there is, and leaves some out if there are very
// many.
func (v view) fitNames(p *plot.Plot, area draw.Canvas) {
	room := (area.Max.X - area.Min.X - 50) / vg.Length(len(v.x.names))
	every := 1
	if room < 44 {
		every = int(math.Ceil(float64(44 / room)))
	}
	shown := v.x
	shown.names = make([]string, len(v.x.names))
	for i, name := range v.x.names {
		if i%every == 0 {
			shown.names[i] = clean(name, p.X.Tick.Label, room*vg.Length(every)-4)
		}
	}
	p.X.Tick.Marker = plot.TickerFunc(shown.ticks)
}
