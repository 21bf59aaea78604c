// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weir/record"
)

const (
	swatch     = 18 * vg.Length(1) // the piece of line before a name
	nameGap    = 6 * vg.Length(1)
	nameHeight = 15 * vg.Length(1)
	nameLimit  = 150 * vg.Length(1)
)

// names are the labels at the right of the plot: each beside the end of its curve where there is
// room.
type names struct {
	view
	texts []string
	wide  vg.Length
}

func (v view) names() names {
	n := names{view: v}
	sty := letters(10.5, ink, false)
	for _, curve := range v.Curves {
		text := clean(curve.Name, sty, nameLimit)
		n.texts = append(n.texts, text)
		n.wide = max(n.wide, sty.Width(text))
	}
	return n
}

// width is the room that the names take at the right; no curve has a name, no room.
func (n names) width() vg.Length {
	if n.wide == 0 {
		return 10
	}
	return n.wide + swatch + 2*nameGap + 6
}

// placed is a name and the height it is drawn at.
type placed struct {
	curve int
	y     vg.Length
}

// draw writes the names of curves that have points.
func (n names) draw(c draw.Canvas, p *plot.Plot, area draw.Canvas) {
	data := p.DataCanvas(area)
	_, y := p.Transforms(&data)
	var list []placed
	for i, curve := range n.Curves {
		last := n.lastVisible(curve)
		if last < 0 || n.texts[i] == "" {
			continue
		}
		at := data.Max.Y - nameHeight*vg.Length(len(list)) // bars and CDFs: a list from the top
		if n.Kind == record.Lines || n.Kind == record.TimeLine {
			at = min(max(y(curve.Y[last]), data.Min.Y), data.Max.Y)
		}
		list = append(list, placed{i, at})
	}
	step := spread(list, data.Min.Y, data.Max.Y)
	left := area.Max.X + nameGap
	for _, item := range list {
		n.swatch(c, item, left)
		sty := letters(min(10.5, step*0.85), ink, false)
		sty.YAlign = draw.YCenter
		c.FillText(sty, vg.Point{X: left + swatch + nameGap, Y: item.y + 1.3}, n.texts[item.curve])
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

// swatch draws the piece of line, or of bar, that the name belongs to.
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

// spread moves names apart so that none covers another, keeping their order from top to bottom. It
// returns the room that each then has.
func spread(list []placed, bottom, top vg.Length) (step vg.Length) {
	slices.SortStableFunc(list, func(a, b placed) int {
		switch {
		case a.y > b.y:
			return -1
		case a.y < b.y:
			return 1
		}
		return 0
	})
	step = nameHeight
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
	return step
}
