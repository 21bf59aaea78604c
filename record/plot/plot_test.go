// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"weir/record"
	"weir/record/plot"
)

func svg(t *testing.T, f record.Figure) string {
	t.Helper()
	var b bytes.Buffer
	if err := plot.SVG(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// texts returns the legible texts of the drawing, and fails if it is not well-formed.
func texts(t *testing.T, drawing string) []string {
	t.Helper()
	var found []string
	inText := false
	for decoder := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("the drawing is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
			if name := token.Name.Local; name == "script" || name == "image" || name == "foreignObject" {
				t.Fatalf("the drawing has an element %q", name)
			}
		case xml.CharData:
			if inText {
				found = append(found, string(token))
			}
		}
	}
}

func has(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

func TestFiguresNameEverything(t *testing.T) {
	for _, f := range gallery() {
		found := texts(t, svg(t, f))
		want := []string{f.Title, f.XLabel}
		if !f.LogY && f.YUnit == record.BitPerSecond {
			want = append(want, f.YLabel+" (Mbit/s)")
		} else {
			want = append(want, f.YLabel)
		}
		if f.XUnit == record.Share {
			want[1] += " (%)"
		}
		if f.Kind == record.TimeLine {
			want[1] += " (s)"
		}
		for _, c := range f.Curves {
			want = append(want, c.Name)
		}
		want = append(want, f.XNames...)
		for _, text := range want {
			if !has(found, text) {
				t.Errorf("%s: %q is not in %q", f.Name, text, found)
			}
		}
	}
}

func TestTicksCarryUnits(t *testing.T) {
	found := texts(t, svg(t, lossStudy(true)))
	for _, want := range []string{"10 Mbit/s", "100 Mbit/s", "1 Gbit/s"} {
		if !has(found, want) {
			t.Errorf("the log axis has no %q: %q", want, found)
		}
	}
	found = texts(t, svg(t, lossStudy(false)))
	for _, want := range []string{"0", "200", "1000", "2", "10"} {
		if !has(found, want) {
			t.Errorf("the linear axes have no %q: %q", want, found)
		}
	}
}

func TestReferencesAreDashed(t *testing.T) {
	f := lossStudy(false)
	measured := record.Figure{Name: "m", Kind: record.Lines, Curves: f.Curves[:3]}
	if strings.Contains(svg(t, measured), "stroke-dasharray") {
		t.Error("a measured curve is dashed")
	}
	if !strings.Contains(svg(t, f), "stroke-dasharray") {
		t.Error("no reference is dashed")
	}
}

func TestPNG(t *testing.T) {
	for _, f := range gallery() {
		var b bytes.Buffer
		if err := plot.PNG(&b, f); err != nil {
			t.Fatal(err)
		}
		image, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if size := image.Bounds().Size(); size.X != 1530 || size.Y < 864 {
			t.Errorf("%s is %v", f.Name, size)
		}
		if r, g, b, _ := image.At(3, 3).RGBA(); r != 0xffff || g != 0xffff || b != 0xffff {
			t.Errorf("%s has no light background", f.Name)
		}
	}
}

// Drawing any figure ends, without a panic and with a readable drawing.
func TestDifficultFigures(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	curve := func(x, y []float64) []record.Curve { return []record.Curve{{Name: "c", X: x, Y: y}} }
	long := make([]float64, 100_000)
	for i := range long {
		long[i] = float64(i)
	}
	figures := map[string]record.Figure{
		"no curves":        {},
		"no points":        {Curves: curve(nil, nil)},
		"one point":        {Curves: curve([]float64{3}, []float64{7})},
		"one point at 0":   {Curves: curve([]float64{0}, []float64{0})},
		"equal values":     {Curves: curve([]float64{1, 1}, []float64{5, 5})},
		"not finite":       {Curves: curve([]float64{1, 2, nan, 4}, []float64{nan, inf, 1, -inf})},
		"negative":         {Curves: curve([]float64{-3, -2}, []float64{-5, -50})},
		"huge":             {Curves: curve([]float64{1, 1e300}, []float64{1e-300, 1e300})},
		"tiny":             {Curves: curve([]float64{1e-300, 2e-300}, []float64{1e-300, 2e-300})},
		"log of 0":         {LogX: true, LogY: true, Curves: curve([]float64{0, 1, 10}, []float64{0, 5, 0})},
		"log of nothing":   {LogX: true, LogY: true, Curves: curve([]float64{0, -1}, []float64{0, -5})},
		"log over decades": {LogX: true, LogY: true, Curves: curve([]float64{1e-30, 1e30}, []float64{1e-30, 1e30})},
		"log in one":       {LogX: true, LogY: true, Curves: curve([]float64{3, 4}, []float64{3, 3})},
		"long":             {Curves: curve(long, long)},
		"long names": {Title: strings.Repeat("title ", 100), XLabel: strings.Repeat("x", 300), YLabel: strings.Repeat("y", 300),
			Curves: []record.Curve{{Name: strings.Repeat("name\n", 100), X: []float64{1}, Y: []float64{1}}}},
		"many categories": {XNames: strings.Split(strings.Repeat("category,", 200), ","), Curves: curve(long[:200], long[:200])},
		"interval below 0": {LogY: true, Curves: []record.Curve{{Name: "c", X: []float64{1, 2}, Y: []float64{1, 2}, Low: []float64{-1, nan},
			High: []float64{5, nan}}}},
	}
	var many record.Figure
	for range 40 {
		many.Curves = append(many.Curves, record.Curve{Name: "same place", X: []float64{1, 2}, Y: []float64{1, 1}})
	}
	figures["many curves"] = many
	for name, f := range figures {
		for _, kind := range []record.FigureKind{record.Lines, record.Steps, record.BarChart, record.TimeLine} {
			f.Name, f.Kind = name, kind
			drawing := svg(t, f)
			texts(t, drawing)
			d := parse(t, drawing)
			for _, text := range d.texts {
				if text.left < 0 || text.right > d.width || text.top < 0 || text.bottom > d.height {
					t.Errorf("%s as %s: %.40q lies outside", name, kind, text.words)
				}
			}
			if strings.Contains(drawing, "NaN") || strings.Contains(drawing, "Inf") {
				t.Errorf("%s as %s has coordinates that are no numbers", name, kind)
			}
			if len(drawing) > 1<<20 && kind != record.Lines && kind != record.BarChart {
				t.Errorf("%s as %s takes %d bytes", name, kind, len(drawing))
			}
		}
	}
}

func TestEmptyFigureSaysSo(t *testing.T) {
	if !has(texts(t, svg(t, record.Figure{Title: "Goodput", Kind: record.Lines})), "There is no valid measurement to draw.") {
		t.Error("an empty figure does not say why")
	}
}

func TestRefusesColumnsThatDoNotMatch(t *testing.T) {
	for name, f := range map[string]record.Figure{
		"short y":    {Kind: record.Lines, Curves: []record.Curve{{X: []float64{1, 2}, Y: []float64{1}}}},
		"short low":  {Kind: record.Lines, Curves: []record.Curve{{X: []float64{1}, Y: []float64{1}, Low: []float64{}, High: []float64{1}}}},
		"only low":   {Kind: record.Lines, Curves: []record.Curve{{X: []float64{1}, Y: []float64{1}, Low: []float64{1}}}},
		"other kind": {Kind: "pie"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := plot.SVG(&b, f); err == nil || b.Len() > 0 {
				t.Errorf("%s: error %v after %d bytes", name, err, b.Len())
			}
		})
	}
}
