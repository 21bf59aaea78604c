// SPDX-License-Identifier: Apache-2.0

package overlay_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/record"
	"weir/record/overlay"
)

func curve(name string, y ...float64) record.Curve {
	c := record.Curve{Name: name, Y: y}
	for i := range y {
		c.X = append(c.X, float64(i))
	}
	return c
}

func published(name string, y ...float64) record.Curve {
	c := curve(name, y...)
	c.Reference = true
	return c
}

func source(name string, figures ...record.Figure) overlay.Source {
	return overlay.Source{Name: name, Bundle: &record.Bundle{Figures: figures}}
}

func lines(curves ...record.Curve) record.Figure {
	return record.Figure{Name: "goodput", Title: "Goodput", Kind: record.Lines, YUnit: record.BitPerSecond, Curves: curves}
}

// text returns a figure's curves, each with its values.
func text(f record.Figure) (all []string) {
	for _, c := range f.Curves {
		all = append(all, fmt.Sprintf("%s%v%v", c.Name, c.X, c.Y))
	}
	return all
}

func of(t *testing.T, sources ...overlay.Source) *record.Bundle {
	t.Helper()
	b, err := overlay.Of(sources)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCurvesOfBundlesInOneFigure(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b record.Figure
		want []string
	}{
		{"one curve each has the bundle's name", lines(curve("cubic", 1, 2)), lines(curve("cubic", 3)), []string{"a[0 1][1 2]", "b[0][3]"}},
		{"several have both names", lines(curve("cubic", 1), curve("bbr", 2)), lines(curve("cubic", 3)), []string{"a, cubic[0][1]", "a, bbr[0][2]", "b, cubic[0][3]"}},
		{"what was published is there once", lines(curve("cubic", 1), published("talk", 9)), lines(curve("cubic", 3), published("talk", 9)),
			[]string{"a[0][1]", "talk[0][9]", "b[0][3]"}},
		{"predictions that differ are both there", lines(curve("cubic", 1), published("Mathis", 8)), lines(curve("cubic", 3), published("Mathis", 9)),
			[]string{"a[0][1]", "a, Mathis[0][8]", "b[0][3]", "b, Mathis[0][9]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := of(t, source("a", c.a), source("b", c.b))
			if d := cmp.Diff(c.want, text(got.Figures[0])); d != "" || len(got.Figures) != 1 {
				t.Errorf("%d figures (-want +got):\n%s", len(got.Figures), d)
			}
		})
	}
}

func TestCategoriesOfBundlesAreOne(t *testing.T) {
	bars := func(names []string, curves ...record.Curve) record.Figure {
		f := lines(curves...)
		f.Kind, f.XNames = record.BarChart, names
		return f
	}
	across := record.Curve{Name: "fair", X: []float64{-0.5, 1.5}, Y: []float64{5, 5}, Reference: true}
	got := of(t, source("a", bars([]string{"1 BDP", "2 BDP"}, curve("bbr", 10, 20), across)), source("b", bars([]string{"2 BDP", "4 BDP"}, curve("bbr", 21, 40)))).Figures[0]
	if d := cmp.Diff([]string{"1 BDP", "2 BDP", "4 BDP"}, got.XNames); d != "" {
		t.Errorf("categories (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"a[0 1][10 20]", "a, fair[-0.5 2.5][5 5]", "b[1 2][21 40]"}, text(got)); d != "" {
		t.Errorf("curves (-want +got):\n%s", d)
	}
}

func TestFiguresOfOneBundleAreLeftOut(t *testing.T) {
	other := lines(curve("cubic", 1))
	other.YUnit = record.Seconds
	got := of(t, source("a", lines(curve("cubic", 1))), source("b", other), source("c", lines(curve("cubic", 2))))
	if len(got.Figures) != 1 || len(got.Manifest.Notes) != 1 || cmp.Diff([]string{"a[0][1]", "c[0][2]"}, text(got.Figures[0])) != "" {
		t.Errorf("%d figures, %q", len(got.Figures), got.Manifest.Notes)
	}
	if _, err := overlay.Of([]overlay.Source{source("a", lines(curve("cubic", 1))), source("b", other)}); fault.Of(err) != fault.Usage {
		t.Errorf("bundles with nothing in common: %v", err)
	}
}

func TestTitlesHaveWhatIsCommon(t *testing.T) {
	slow, fast := lines(curve("cubic", 1)), lines(curve("cubic", 2))
	slow.Title, fast.Title = "Goodput: rate=1Gbit", "Goodput: rate=2Gbit"
	slow.Subtitle, fast.Subtitle = "one repetition", "three repetitions"
	if f := of(t, source("a", slow), source("b", fast)).Figures[0]; f.Title != "Goodput" || f.Subtitle != "" {
		t.Errorf("title %q, %q", f.Title, f.Subtitle)
	}
	if f := of(t, source("a", slow), source("b", slow)).Figures[0]; f.Title != slow.Title || f.Subtitle != slow.Subtitle {
		t.Errorf("title %q, %q", f.Title, f.Subtitle)
	}
}

func TestSamplesSayTheirBundle(t *testing.T) {
	a, b := source("a", lines(curve("cubic", 1))), source("b", lines(curve("cubic", 2)))
	a.Bundle.Samples = []record.Sample{{Labels: record.Labels{"cc": "bbr"}}}
	b.Bundle.Samples = []record.Sample{{Labels: record.Labels{"bundle": "small"}}}
	got := of(t, a, b).Samples
	if d := cmp.Diff([]record.Sample{{Labels: record.Labels{"cc": "bbr", "of bundle": "a"}}, {Labels: record.Labels{"bundle": "small", "of bundle": "b"}}}, got); d != "" {
		t.Errorf("samples (-want +got):\n%s", d)
	}
	if len(a.Bundle.Samples[0].Labels) != 1 {
		t.Error("the bundle's own labels were changed")
	}
}

func TestNamesOfFolders(t *testing.T) {
	for _, c := range []struct{ folders, want []string }{
		{[]string{"weir-out/loss-study-20261124-101112", "weir-out/loss-study-20261124-131415/"}, []string{"101112", "131415"}},
		{[]string{"one/before", "two/after"}, []string{"before", "after"}},
		{[]string{"loss", "loss-late"}, []string{"loss", "loss-late"}},
		{[]string{"x/same", "y/same"}, []string{"same", "same"}},
	} {
		t.Run(c.folders[0], func(t *testing.T) {
			var sources []overlay.Source
			for _, f := range c.folders {
				sources = append(sources, overlay.Source{Folder: f})
			}
			sources = append(sources, overlay.Source{Name: "mine", Folder: "loss-z"})
			overlay.Name(sources)
			for i, want := range append(c.want, "mine") {
				if sources[i].Name != want {
					t.Errorf("%v: the name of %d is %q, not %q", c.folders, i, sources[i].Name, want)
				}
			}
		})
	}
}
