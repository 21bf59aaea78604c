// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"weir/record"
)

// On small screens a figure is 400 pixels wide, and letters below 9 pixels are hard to read.
const (
	narrow   = 400.0
	smallest = 9.0
)

// wordy is a figure with texts as long as the lab's.
func wordy(kind record.FigureKind) record.Figure {
	f := record.Figure{Name: "wordy", Kind: kind, Title: "Goodput of the bulk transfer by congestion control over a path with random loss",
		Subtitle: "mean and 95 % interval of the valid repetitions; dashed: published figures, and Mathis' equation at the measured loss and RTT",
		XLabel:   "queueing delay that the traffic of both directions adds at the bottleneck, by quantile of all its packets",
		YLabel:   "goodput at the receiver, without headers and without what was sent again, over the whole interval",
		XUnit:    record.BitPerSecond, YUnit: record.BitPerSecond}
	for i, name := range []string{"cc=cubic, qdisc=fq_codel, aggregate", "cc=bbr, qdisc=fq_codel, aggregate", "cc=reno, qdisc=pfifo, aggregate",
		"cubic (published, kernel 6.1, 1 Gbit/s, 5 runs)", "Mathis prediction at the measured loss and the measured round-trip time"} {
		c := record.Curve{Name: name, Reference: i > 2}
		for x := range 7 {
			at := float64(x)
			if kind != record.BarChart {
				at *= 2e5
			}
			c.X, c.Y = append(c.X, at), append(c.Y, float64(i+x+1)*1e8)
		}
		f.Curves = append(f.Curves, c)
	}
	if kind == record.BarChart {
		f.XNames = []string{"CUBIC alone", "BBR against CUBIC", "two of CUBIC, one of Reno", "4", "16 BDP", "deep", "as measured"}
	}
	return f
}

// readable lists the figures with texts that must all be legible.
func readable() []record.Figure {
	list := gallery()
	for _, kind := range []record.FigureKind{record.Lines, record.Steps, record.BarChart, record.TimeLine} {
		list = append(list, wordy(kind))
	}
	logarithmic := wordy(record.Lines)
	logarithmic.Name, logarithmic.LogX, logarithmic.LogY = "wordy-log", true, true
	short := cdf()
	short.Name, short.Curves, short.XUnit = "cdf-short", short.Curves[:1], record.BitPerSecond
	for i := range short.Curves[0].X {
		short.Curves[0].X[i] *= 1e12
	}
	crowded := bars()
	crowded.Name, crowded.XNames = "crowded", nil
	for i := range 20 {
		crowded.XNames = append(crowded.XNames, fmt.Sprintf("limit=htb-%d", i))
	}
	many := timeline()
	many.Name, many.Curves = "many", nil
	for i := range 14 {
		many.Curves = append(many.Curves, record.Curve{Name: fmt.Sprintf("flow %d", i), X: []float64{1, 2}, Y: []float64{1, 1}})
	}
	return append(list, logarithmic, short, crowded, many)
}

func TestTextIsReadableAt400Pixels(t *testing.T) {
	for _, f := range readable() {
		d := parse(t, svg(t, f))
		for _, text := range d.texts {
			if size := text.size * narrow / d.width; size < smallest {
				t.Errorf("%s: %q has %.1f pixels where the figure is %g wide", f.Name, text.words, size, narrow)
			}
		}
	}
}

func TestTextStaysInsideAndApart(t *testing.T) {
	for _, f := range readable() {
		d := parse(t, svg(t, f))
		for i, a := range d.texts {
			if !a.fixed {
				t.Errorf("%s: %q is as wide as the viewer's font", f.Name, a.words)
			}
			if a.left < 0 || a.right > d.width || a.top < 0 || a.bottom > d.height {
				t.Errorf("%s, %g by %g: %q lies at %.0f to %.0f, %.0f to %.0f", f.Name, d.width, d.height, a.words, a.left, a.right, a.top, a.bottom)
			}
			for _, b := range d.texts[:i] {
				if !a.turned && !b.turned && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
					t.Errorf("%s: %q covers %q", f.Name, a.words, b.words)
				}
			}
		}
	}
}

func TestNoTextIsCut(t *testing.T) {
	for _, f := range readable() {
		found := strings.Join(strings.Fields(strings.Join(texts(t, svg(t, f)), " ")), " ")
		if strings.Contains(found, "…") {
			t.Errorf("%s has a cut text: %q", f.Name, found)
		}
		want := []string{f.Title, f.Subtitle, f.XLabel, f.YLabel}
		for _, c := range f.Curves {
			want = append(want, c.Name)
		}
		for _, text := range append(want, f.XNames...) {
			if !strings.Contains(found, text) {
				t.Errorf("%s: %q is not in %q", f.Name, text, found)
			}
		}
	}
}

// Every colour has a counterpart in dark mode, with enough contrast to its background.
func TestEveryColourHasOneForTheDark(t *testing.T) {
	paint := regexp.MustCompile(`(?:fill|stroke):(#[0-9A-F]{6})`)
	sheet := regexp.MustCompile(`(?s)<style>(.*)</style>`)
	rule := regexp.MustCompile(`\[style\*="(?:fill|stroke):(#[0-9A-F]{6})"\]\{(?:fill|stroke):(#[0-9A-F]{6})!important\}`)
	for _, f := range readable() {
		drawing := svg(t, f)
		style := sheet.FindString(drawing)
		if !strings.Contains(style, "@media screen and (prefers-color-scheme:dark)") {
			t.Fatalf("%s has no colours for the dark", f.Name)
		}
		dark := map[string]string{}
		for _, m := range rule.FindAllStringSubmatch(style, -1) {
			dark[m[1]] = m[2]
		}
		for _, m := range paint.FindAllStringSubmatch(strings.ReplaceAll(drawing, style, ""), -1) {
			if dark[m[1]] == "" {
				t.Errorf("%s: %s stays as it is in the dark", f.Name, m[1])
			}
		}
		if l := luminance(t, dark["#FFFFFF"]); l > 0.03 {
			t.Errorf("%s: the background has a luminance of %.2f in the dark", f.Name, l)
		}
		for _, text := range parse(t, drawing).texts {
			for scheme, paper := range map[string]string{"light": "#FFFFFF", "dark": dark["#FFFFFF"]} {
				t.Run(scheme, func(t *testing.T) {
					ink := text.colour
					if scheme == "dark" {
						ink = dark[ink]
					}
					if c := contrast(t, ink, paper); c < 4.5 {
						t.Errorf("%s: %q has a contrast of %.1f in the %s scheme", f.Name, text.words, c, scheme)
					}
				})
			}
		}
		for light, colour := range dark {
			if light != "#FFFFFF" && light != "#E3E7EA" && contrast(t, colour, dark["#FFFFFF"]) < 3 {
				t.Errorf("%s, for %s, has a contrast of %.1f", colour, light, contrast(t, colour, dark["#FFFFFF"]))
			}
		}
	}
}

// contrast returns the contrast of two colours by WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	high, low := luminance(t, a), luminance(t, b)
	return (max(high, low) + 0.05) / (min(high, low) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var r, g, b uint8
	if _, err := fmt.Sscanf(colour, "#%02X%02X%02X", &r, &g, &b); err != nil {
		t.Fatalf("colour %q: %v", colour, err)
	}
	linear := func(v uint8) float64 {
		if c := float64(v) / 255; c > 0.04045 {
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		return float64(v) / 255 / 12.92
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
