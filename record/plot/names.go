// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weir/record"
)

const (
	swatch     = 18 * vg.Length(1) // the piece of line before a name
	nameGap    = 6 * vg.Length(1)
	nameHeight = 13 * vg.Length(1)
	besideWide = 84 * vg.Length(1) // maximum width of names at the right of the plot
	besideMost = 13                // maximum number of names there
)

// names holds the labels of the curves: right of the plot beside the ends of the curves, or, if
// they are long or many, in columns below.
type names struct {
	view
	texts   [][]string // lines
	wide    vg.Length
	columns int // 0: at the right
}

func (v view) names() names {
	n := names{view: v}
	sty := letters(tickSize, ink, false)
	lead := swatch + 2*nameGap
	for _, curve := range v.Curves {
		lines := wrap(curve.Name, sty, width-2*margin-lead, 4)
		n.texts = append(n.texts, lines)
		for _, line := range lines {
			n.wide = max(n.wide, sty.Width(line))
		}
	}
	if n.wide > besideWide || len(n.shown()) > besideMost {
		n.columns = max(int((width-2*margin)/(n.wide+lead)), 1)
	}
	return n
}

// shown lists the curves with a name and points.
func (n names) shown() []int {
	var list []int
	for i, curve := range n.Curves {
		if len(n.texts[i]) > 0 && n.lastVisible(curve) >= 0 {
			list = append(list, i)
		}
	}
	return list
}

// beside returns the width of the labels on the right, 0 without names.
func (n names) beside() vg.Length {
	if n.wide == 0 || n.columns > 0 {
		return 10
	}
	return n.wide + swatch + 2*nameGap + 6
}

// below returns the height of the labels below the plot.
func (n names) below() vg.Length {
	high := vg.Length(0)
	for _, row := range n.rows() {
		high += n.rowHeight(row)
	}
	if high > 0 {
		high += 8
	}
	return high
}

// rows returns the curves of each line of the columns.
func (n names) rows() [][]int {
	if n.columns == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(n.shown(), n.columns))
}

func (n names) rowHeight(row []int) vg.Length {
	lines := 0
	for _, i := range row {
		lines = max(lines, len(n.texts[i]))
	}
	return leading(tickSize)*vg.Length(lines-1) + nameHeight
}

// placed is a name and the height of its drawing.
type placed struct {
	curve int
	y     vg.Length
}

// draw writes the names of curves with points.
func (n names) draw(c draw.Canvas, p *plot.Plot, area draw.Canvas) {
	sty := letters(tickSize, ink, false)
	sty.YAlign = draw.YCenter
	if n.columns > 0 {
		n.drawBelow(c, sty)
		return
	}
	data := p.DataCanvas(area)
	_, y := p.Transforms(&data)
	var list []placed
	for _, i := range n.shown() {
		at := data.Max.Y - nameHeight*vg.Length(len(list)) // bars and CDFs: a list from the top
		if n.Kind == record.Lines || n.Kind == record.TimeLine {
			at = min(max(y(n.Curves[i].Y[n.lastVisible(n.Curves[i])]), data.Min.Y), data.Max.Y)
		}
		list = append(list, placed{i, at})
	}
	spread(list, data.Min.Y, data.Max.Y)
	left := area.Max.X + nameGap
	for _, item := range list {
		n.swatch(c, item, left)
		c.FillText(sty, vg.Point{X: left + swatch + nameGap, Y: item.y + 1.3}, n.texts[item.curve][0])
	}
}

// drawBelow writes them in columns at the bottom of the canvas, row by row.
func (n names) drawBelow(c draw.Canvas, sty text.Style) {
	top := c.Min.Y + n.below() - 8
	step := (c.Max.X - c.Min.X) / vg.Length(n.columns)
	for _, row := range n.rows() {
		for column, i := range row {
			item := placed{i, top - nameHeight/2}
			left := c.Min.X + step*vg.Length(column)
			n.swatch(c, item, left)
			for k, line := range n.texts[i] {
				c.FillText(sty, vg.Point{X: left + swatch + nameGap, Y: item.y + 1.3 - leading(tickSize)*vg.Length(k)}, line)
			}
		}
		top -= n.rowHeight(row)
	}
}

func (n names) lastVisible(c record.Curve) int {
	for i := len(c.X) - 1; i >= 0; i-- {
		if n.visible(c, i) {
			return i
		}
	}
	return -1
}

// swatch draws a sample of the named line or bar.
func (n names) swatch(c draw.Canvas, item placed, left vg.Length) {
	s, reference := n.styles[item.curve], n.Curves[item.curve].Reference
	if n.Kind == record.BarChart && !reference {
		c.FillPolygon(faded(s.color, 0.88), []vg.Point{{X: left + 4, Y: item.y - 4.5}, {X: left + 14, Y: item.y - 4.5},
			{X: left + 14, Y: item.y + 4.5}, {X: left + 4, Y: item.y + 4.5}})
		return
	}
	c.StrokeLine2(draw.LineStyle{Color: s.color, Width: 2, Dashes: s.dash}, left, item.y, left+swatch, item.y)
	if n.Kind == record.Lines && (!reference || len(n.Curves[item.curve].X) <= referencesMarked) {
		c.DrawGlyphNoClip(s.glyph(reference), vg.Point{X: left + swatch/2, Y: item.y})
	}
}

// spread moves names apart so that none covers another, keeping their order from top to bottom.
func spread(list []placed, bottom, top vg.Length) {
	slices.SortStableFunc(list, func(a, b placed) int {
		switch {
		case a.y > b.y:
			return -1
		case a.y < b.y:
			return 1
		}
		return 0
	})
	step := nameHeight
	if n := len(list); n > 1 {
		step = min(step, (top-bottom)/vg.Length(n-1))
	}
	for i := 1; i < len(list); i++ { // push down from the top
		list[i].y = min(list[i].y, list[i-1].y-step)
	}
	limit := bottom
	for i := len(list) - 1; i >= 0; i-- { // and up again from the bottom
		list[i].y = max(list[i].y, limit)
		limit = list[i].y + step
	}
}
