// SPDX-License-Identifier: Apache-2.0

package stats_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"weir/record/stats"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.6g, want %.6g", what, got, want)
	}
}

// The interval of 1..5 by hand: mean 3, s = 1.5811, t(4) = 2.7764, half = 1.9632.
func TestEstimateByHand(t *testing.T) {
	e := stats.Of([]float64{1, 2, 3, 4, 5})
	low, high, ok := e.Interval()
	if e.N != 5 || !ok {
		t.Fatalf("estimate %+v", e)
	}
	near(t, "mean", e.Mean, 3, 0)
	near(t, "low", low, 1.0368, 1e-4)
	near(t, "high", high, 4.9632, 1e-4)
	near(t, "deviation", *e.StdDev, 1.58114, 1e-5)
}

func TestOneValueHasNoInterval(t *testing.T) {
	for _, values := range [][]float64{nil, {7}} {
		e := stats.Of(values)
		if _, _, ok := e.Interval(); ok || e.StdDev != nil || e.N != len(values) {
			t.Fatalf("%v gives %+v", values, e)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := json.Marshal(stats.Of([]float64{7}))
	if string(text) != `{"n":1,"mean":7}` {
		t.Fatalf("written as %s", text)
	}
}

func TestEqualValuesHaveNoSpread(t *testing.T) {
	e := stats.Of([]float64{0.1, 0.1, 0.1})
	if low, high, ok := e.Interval(); !ok || low != 0.1 || high != 0.1 || e.Mean != 0.1 {
		t.Fatalf("estimate %+v is %g..%g", e, low, high)
	}
}

// The intervals of many samples of known distributions cover the truth in 95 % of all cases, within
// 4 sigma.
func TestIntervalsCover(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, mean, deviation float64) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = mean + deviation*r.NormFloat64()
		}
		return values
	}
	const trials = 4000
	var mean, difference, ratio int
	for range trials {
		a, b := draw(5, 10, 2), draw(7, 40, 5)
		if low, high, _ := stats.Of(a).Interval(); low <= 10 && 10 <= high {
			mean++
		}
		if d := stats.Welch(a, b); *d.Low <= 30 && 30 <= *d.High {
			difference++
		}
		if q, _ := stats.Ratio(a, b); *q.Low <= 0.25 && 0.25 <= *q.High {
			ratio++
		}
	}
	sigma := math.Sqrt(trials * 0.95 * 0.05)
	near(t, "coverage of the mean", float64(mean), trials*0.95, 4*sigma)
	// Welch and Fieller are approximations: allow half a percent on top.
	near(t, "coverage of the difference", float64(difference), trials*0.95, 4*sigma+trials*0.005)
	near(t, "coverage of the ratio", float64(ratio), trials*0.95, 4*sigma+trials*0.005)
}

// Expected values by SciPy: stats.ttest_ind(b, a, equal_var=False) and its confidence_interval().
func TestWelchAgainstSciPy(t *testing.T) {
	a := []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4}
	b := []float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 31.4}
	d := stats.Welch(a, b)
	near(t, "difference", d.Value, 3.3, 1e-9)
	near(t, "p", *d.P, 0.006500160671564436, 1e-9)
	near(t, "low", *d.Low, 1.0035275952803526, 1e-6)
	near(t, "high", *d.High, 5.596472404719648, 1e-6)
	if !d.Significant {
		t.Error("the difference is not called significant")
	}
	back := stats.Welch(b, a)
	near(t, "difference backwards", back.Value, -d.Value, 1e-12)
	near(t, "p backwards", *back.P, *d.P, 1e-12)
}

func TestWelchWithoutSpread(t *testing.T) {
	if d := stats.Welch([]float64{5, 5}, []float64{6, 6}); !d.Significant || *d.P != 0 || *d.Low != 1 || *d.High != 1 {
		t.Errorf("5 against 6: %+v", d)
	}
	if d := stats.Welch([]float64{5, 5}, []float64{5, 5}); d.Significant || *d.P != 1 {
		t.Errorf("5 against 5: %+v", d)
	}
	if d := stats.Welch([]float64{5}, []float64{6, 7}); d.Significant || d.P != nil || d.Value != 1.5 {
		t.Errorf("one value: %+v", d)
	}
	if d := stats.Welch(nil, []float64{6, 7}); d.Value != 0 || d.P != nil {
		t.Errorf("no values: %+v", d)
	}
}

func TestRatioEdges(t *testing.T) {
	if _, ok := stats.Ratio([]float64{1, 2}, []float64{1, -1}); ok {
		t.Error("a base with mean 0 gives a ratio")
	}
	if _, ok := stats.Ratio(nil, []float64{1}); ok {
		t.Error("no values give a ratio")
	}
	if r, ok := stats.Ratio([]float64{1, 2}, []float64{3, -2.9}); !ok || r.Low != nil {
		t.Errorf("a base that may be 0 has a bounded interval: %+v", r)
	}
	if r, ok := stats.Ratio([]float64{0, 0}, []float64{3, 4}); !ok || r.Value != 0 || *r.Low != 0 || *r.High != 0 {
		t.Errorf("0 over 3.5: %+v", r)
	}
	if r, ok := stats.Ratio([]float64{2, 2}, []float64{4, 4}); !ok || *r.Low != 0.5 || *r.High != 0.5 {
		t.Errorf("2 over 4 without spread: %+v", r)
	}
	if r, ok := stats.Ratio([]float64{2}, []float64{4, 4}); !ok || r.Value != 0.5 || r.Low != nil {
		t.Errorf("one value over 4: %+v", r)
	}
}

func TestJain(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{0, 0}, 1}, {[]float64{3}, 1}, {[]float64{2, 2, 2}, 1}, {[]float64{9, 0, 0}, 1.0 / 3},
		{[]float64{1, 3}, 0.8}, {[]float64{1e200, 3e200}, 0.8},
	} {
		near(t, "Jain's index", stats.Jain(test.values), test.want, 1e-12)
	}
}

func TestHarm(t *testing.T) {
	near(t, "harm to goodput", stats.Harm(100, 30), 0.7, 1e-12)
	near(t, "benefit", stats.Harm(100, 110), -0.1, 1e-12)
	near(t, "harm to delay", stats.HarmLess(10, 40), 0.75, 1e-12)
	near(t, "nothing alone", stats.Harm(0, 5)+stats.HarmLess(5, 0), 0, 0)
}

// Holm's own example of four hypotheses.
func TestHolm(t *testing.T) {
	got := stats.Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "adjusted p", got[i], want, 1e-12)
	}
	if adjusted := stats.Holm([]float64{0.9, 0.8}); adjusted[0] != 1 || adjusted[1] != 1 {
		t.Errorf("adjusted %v, want at most 1", adjusted)
	}
}

func TestGeoMean(t *testing.T) {
	mean, ok := stats.GeoMean([]float64{1, 10, 100})
	if !ok {
		t.Fatal("no mean")
	}
	near(t, "geometric mean", mean, 10, 1e-9)
	for _, values := range [][]float64{nil, {1, 0}, {1, math.NaN()}} {
		if _, ok := stats.GeoMean(values); ok {
			t.Errorf("%v has a geometric mean", values)
		}
	}
}
