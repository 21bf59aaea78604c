// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	slanted      = math.Pi / 4
	slantedLimit = 130 * vg.Length(1)  // maximum length of a slanted name
	slantedRoom  = 14.5 * vg.Length(1) // its space along the axis
)

// categories holds the labels of an axis, fitted to the available space.
type categories struct {
	names []string // with line feeds
	slant bool
}

// fitCategories breaks the names into up to three lines, and slants them if a word is too long for
// that. If there are very many, some are omitted.
func (v view) fitCategories(across vg.Length) categories {
	fit := categories{names: make([]string, len(v.x.names))}
	sty := letters(tickSize, soft, false)
	room := across / vg.Length(max(len(v.x.names), 1))
	for _, name := range v.x.names {
		whole := strings.Join(strings.Fields(printable(name)), " ")
		fit.slant = fit.slant || strings.Join(wrap(name, sty, room-5, 3), " ") != whole
	}
	every := 1
	if fit.slant {
		every = int(max(math.Ceil(float64(slantedRoom/room)), 1))
	}
	for i, name := range v.x.names {
		switch {
		case i%every != 0:
		case fit.slant:
			fit.names[i] = strings.Join(wrap(name, sty, slantedLimit, 1), "")
		default:
			fit.names[i] = strings.Join(wrap(name, sty, room-5, 3), "\n")
		}
	}
	return fit
}

// height returns the space below the axis.
func (f categories) height() vg.Length {
	sty := letters(tickSize, soft, false)
	high := vg.Length(0)
	for _, name := range f.names {
		if f.slant {
			high = max(high, (sty.Width(name)+sty.Height(name))*math.Sqrt2/2)
		} else {
			high = max(high, sty.Height(name))
		}
	}
	return high
}

// set passes the names to the plotting library.
func (f categories) set(a *plot.Axis, from axis) {
	from.names = f.names
	a.Tick.Marker = plot.TickerFunc(from.ticks)
	if f.slant {
		a.Tick.Label.Rotation, a.Tick.Label.XAlign, a.Tick.Label.YAlign = slanted, draw.XRight, draw.YTop
	}
}

// fitTicks omits labels that would overlap on an axis of that length, powers of ten last. Their
// ticks stay.
func fitTicks(ticks []plot.Tick, across vg.Length, place func(float64) float64) {
	sty := letters(tickSize, soft, false)
	order := make([]int, 0, len(ticks))
	for i, tick := range ticks {
		if tick.Label != "" {
			order = append(order, i)
		}
	}
	decade := func(i int) bool {
		e := math.Log10(math.Abs(ticks[i].Value))
		return math.Abs(e-math.Round(e)) < 1e-9
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case decade(a) && !decade(b):
			return -1
		case decade(b) && !decade(a):
			return 1
		}
		return 0
	})
	var taken [][2]vg.Length
	for _, i := range order {
		half := sty.Width(ticks[i].Label)/2 + 4
		at := across * vg.Length(place(ticks[i].Value))
		if slices.ContainsFunc(taken, func(t [2]vg.Length) bool { return at-half < t[1] && t[0] < at+half }) {
			ticks[i].Label = ""
			continue
		}
		taken = append(taken, [2]vg.Length{at - half, at + half})
	}
}
