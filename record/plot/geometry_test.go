// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
)

// drawing holds the places of the texts of an SVG document, in its own units, y from the top.
type drawing struct {
	width, height float64
	texts         []placedText
}

type placedText struct {
	words                    string
	size                     float64
	colour                   string
	turned                   bool
	fixed                    bool // has its width with any font
	left, right, top, bottom float64
}

// affine maps (x, y) to (a x + c y + e, b x + d y + f), like SVG's matrix.
type affine [6]float64

func (m affine) times(n affine) affine {
	return affine{m[0]*n[0] + m[2]*n[1], m[1]*n[0] + m[3]*n[1], m[0]*n[2] + m[2]*n[3], m[1]*n[2] + m[3]*n[3],
		m[0]*n[4] + m[2]*n[5] + m[4], m[1]*n[4] + m[3]*n[5] + m[5]}
}

func (m affine) at(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

var call = regexp.MustCompile(`(scale|translate|rotate)\(([^)]*)\)`)

func transform(t *testing.T, text string) affine {
	t.Helper()
	m := affine{1, 0, 0, 1, 0, 0}
	for _, c := range call.FindAllStringSubmatch(text, -1) {
		values := []float64{}
		for _, word := range strings.FieldsFunc(c[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			values = append(values, number(t, word))
		}
		switch c[1] {
		case "scale":
			m = m.times(affine{values[0], 0, 0, values[1], 0, 0})
		case "translate":
			m = m.times(affine{1, 0, 0, 1, values[0], values[1]})
		case "rotate":
			sin, cos := math.Sincos(values[0] * math.Pi / 180)
			m = m.times(affine{cos, sin, -sin, cos, 0, 0})
		}
	}
	return m
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// parse finds every text's box, by the widths of the figures' font.
func parse(t *testing.T, svg string) drawing {
	t.Helper()
	var d drawing
	var current *placedText
	var bold bool
	var x, y, length float64
	stack := []affine{{1, 0, 0, 1, 0, 0}}
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return d
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			attribute := map[string]string{}
			for _, a := range token.Attr {
				attribute[a.Name.Local] = a.Value
			}
			stack = append(stack, stack[len(stack)-1].times(transform(t, attribute["transform"])))
			switch token.Name.Local {
			case "svg":
				if _, err := fmt.Sscanf(attribute["viewBox"], "0 0 %g %g", &d.width, &d.height); err != nil {
					t.Fatal(err)
				}
			case "text":
				style := attribute["style"]
				x, y, bold = number(t, attribute["x"]), number(t, attribute["y"]), strings.Contains(style, "font-weight:bold")
				if attribute["lengthAdjust"] == "spacingAndGlyphs" {
					length = number(t, attribute["textLength"])
				}
				current = &placedText{size: number(t, between(style, "font-size:", "px")), colour: between(style, "fill:", ";")}
			}
		case xml.CharData:
			if current != nil {
				current.words += string(token)
			}
		case xml.EndElement:
			if token.Name.Local == "text" {
				current.place(stack[len(stack)-1], x, y, length, bold)
				d.texts = append(d.texts, *current)
				current = nil
			}
			stack = stack[:len(stack)-1]
		}
	}
}

// place computes the box around the corners of a text with a baseline that begins at x, y.
func (p *placedText) place(m affine, x, y, length float64, bold bool) {
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Length(p.size)}
	if bold {
		face.Weight = xfont.WeightBold
	}
	lookedUp := font.DefaultCache.Lookup(face, face.Size)
	wide := lookedUp.Width(p.words).Points()
	p.fixed = strings.TrimSpace(p.words) == "" || math.Abs(length-wide) <= 0.1
	p.turned = math.Abs(m[1]) > 1e-9
	p.left, p.top, p.right, p.bottom = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, corner := range [][2]float64{{x, y - 0.73*p.size}, {x + wide, y - 0.73*p.size}, {x, y + 0.21*p.size}, {x + wide, y + 0.21*p.size}} {
		cx, cy := m.at(corner[0], corner[1])
		p.left, p.right, p.top, p.bottom = min(p.left, cx), max(p.right, cx), min(p.top, cy), max(p.bottom, cy)
	}
}

func between(s, before, after string) string {
	_, rest, _ := strings.Cut(s, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}
