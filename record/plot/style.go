// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"image/color"
	"slices"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"weir/record"
)

var (
	ink   = color.NRGBA{0x1f, 0x25, 0x2b, 0xff}
	soft  = color.NRGBA{0x5b, 0x65, 0x6e, 0xff}
	grid  = color.NRGBA{0xe3, 0xe7, 0xea, 0xff}
	rule  = color.NRGBA{0x9a, 0xa3, 0xab, 0xff}
	paper = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// palette is Okabe and Ito's without yellow, which is too light for a thin line on white.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	{0x3d, 0x3d, 0x3d, 0xff}, // grey
}

var markers = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{}, draw.RingGlyph{}, draw.TriangleGlyph{},
	draw.CrossGlyph{},
}

var dashes = [][]vg.Length{{6, 3}, {2, 2.5}, {8, 3, 2, 3}}

// style is the style of one curve.
type style struct {
	color  color.NRGBA
	marker draw.GlyphDrawer
	dash   []vg.Length // nil: solid
}

// glyph is the marker of a point: for a reference a wide ring, which stays visible around measured
// points.
func (s style) glyph(reference bool) draw.GlyphStyle {
	if reference {
		return draw.GlyphStyle{Color: s.color, Radius: 5.2, Shape: draw.RingGlyph{}}
	}
	return draw.GlyphStyle{Color: s.color, Radius: 3.4, Shape: s.marker}
}

// styles gives each measured curve a colour and a marker, by the order of their names, so that
// figures of the same curves agree in any order. A reference is dashed, in the colour of the
// measured curve with the longest name that its own begins with, otherwise grey. Beyond the palette
// the colours repeat, dashed.
func styles(curves []record.Curve) []style {
	list := make([]style, len(curves))
	for n, i := range byName(curves) {
		list[i] = style{color: palette[n%len(palette)], marker: markers[n%len(markers)]}
		if round := n / len(palette); round > 0 {
			list[i].dash = dashes[round%len(dashes)]
		}
	}
	references := 0
	for i, c := range curves {
		if !c.Reference {
			continue
		}
		list[i] = style{color: soft, dash: dashes[references%len(dashes)]}
		if owner := ownerOf(c.Name, curves); owner >= 0 {
			list[i].color, list[i].dash = list[owner].color, dashes[0]
		} else {
			references++
		}
	}
	return list
}

// byName lists the measured curves in the order of their names.
func byName(curves []record.Curve) (order []int) {
	for i, c := range curves {
		if !c.Reference {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(curves[a].Name, curves[b].Name) })
	return order
}

// ownerOf returns the measured curve with the longest name that name begins with, or -1.
func ownerOf(name string, curves []record.Curve) int {
	owner, longest := -1, 0
	for i, c := range curves {
		if !c.Reference && len(c.Name) > longest && strings.HasPrefix(strings.ToLower(name), strings.ToLower(c.Name)) {
			owner, longest = i, len(c.Name)
		}
	}
	return owner
}

// letters makes a text style of that size.
func letters(size vg.Length, clr color.Color, bold bool) text.Style {
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		face.Weight = xfont.WeightBold
	}
	return text.Style{Color: clr, Font: face, XAlign: draw.XLeft, YAlign: draw.YBottom, Handler: text.Plain{Fonts: font.DefaultCache}}
}

// faded returns a colour with the given share of its opacity.
func faded(c color.NRGBA, share float64) color.Color {
	c.A = uint8(share * 255)
	return translucent(c)
}

// translucent is a colour that the drawing names exactly, for the dark scheme to find: the library
// divides by the opacity and rounds down.
type translucent color.NRGBA

// RGBA implements color.Color.
func (c translucent) RGBA() (r, g, b, a uint32) {
	a = uint32(c.A) * 0x101
	up := func(v uint8) uint32 { return (uint32(v)*a + 254) / 255 }
	return up(c.R), up(c.G), up(c.B), a
}
