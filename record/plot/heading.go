// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// block is a text above the plot, in fitting lines.
type block struct {
	style text.Style
	lines []string
	gap   vg.Length // below the last line
}

func newBlock(words string, size vg.Length, clr color.Color, bold bool, lines int, gap vg.Length) block {
	b := block{style: letters(size, clr, bold), gap: gap}
	b.lines = wrap(words, b.style, width-2*margin, lines)
	return b
}

func (b block) height() vg.Length {
	if len(b.lines) == 0 {
		return 0
	}
	return leading(b.style.Font.Size)*vg.Length(len(b.lines)) + b.gap
}

// draw writes the lines at the top of c and returns the rest.
func (b block) draw(c draw.Canvas) draw.Canvas {
	b.drawAt(c, vg.Point{X: c.Min.X, Y: c.Max.Y})
	c.Max.Y -= b.height()
	return c
}

// drawAt writes the lines below that point.
func (b block) drawAt(c draw.Canvas, top vg.Point) {
	for _, line := range b.lines {
		top.Y -= leading(b.style.Font.Size)
		c.FillText(b.style, top, line)
	}
}

// headings returns title, subtitle and the y axis's label, which is level above its axis.
func (v view) headings() []block {
	list := []block{newBlock(v.Title, titleSize, ink, true, 4, 4), newBlock(v.Subtitle, labelSize, soft, false, 6, 6)}
	if !v.empty {
		list = append(list, newBlock(v.y.label(v.YLabel), labelSize, ink, false, 3, 7))
	}
	return list
}

func leading(size vg.Length) vg.Length { return size * 1.2 }

// wrap breaks text into lines of at most limit, between words if possible. Excess text ends with an
// ellipsis.
func wrap(s string, sty text.Style, limit vg.Length, lines int) []string {
	var done []string
	current := ""
	for _, word := range strings.Fields(printable(s)) {
		next := strings.TrimSpace(current + " " + word)
		if sty.Width(next) <= limit {
			current = next
			continue
		}
		if current != "" {
			done = append(done, current)
		}
		for current = word; sty.Width(current) > limit && len(done) <= lines; {
			head := fitting(current, sty, limit)
			done, current = append(done, head), current[len(head):]
		}
		if len(done) > lines {
			break
		}
	}
	if current != "" {
		done = append(done, current)
	}
	if len(done) > lines {
		done = done[:lines]
		last := done[lines-1]
		if sty.Width(last+"…") > limit {
			last = fitting(last, sty, limit-sty.Width("…"))
		}
		done[lines-1] = last + "…"
	}
	return done
}

// fitting returns the fitting start of a text, at least one character.
func fitting(s string, sty text.Style, limit vg.Length) string {
	end := 0
	for i, r := range s {
		next := i + len(string(r))
		if end > 0 && sty.Width(s[:next]) > limit {
			break
		}
		end = next
	}
	return s[:end]
}

// printable replaces control characters and invalid UTF-8.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
